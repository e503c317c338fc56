package redisstore

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
)

// unreachable returns clients whose server refuses the connection.
func unreachable(t *testing.T) map[string]redis.UniversalClient {
	const addr = "127.0.0.1:1"
	all := map[string]redis.UniversalClient{
		"server":  redis.NewClient(&redis.Options{Addr: addr, Username: "alice", Password: "sesame"}),
		"cluster": redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{addr}, Password: "sesame"}),
	}
	for _, rdb := range all {
		t.Cleanup(func() { _ = rdb.Close() })
	}
	return all
}

func TestAnUnreachableServerIsUnavailable(t *testing.T) {
	t.Parallel()
	synctest.Test(t, isUnavailable) // the pauses between the tries take no time
}

func isUnavailable(t *testing.T) {
	for name, rdb := range unreachable(t) {
		store, err := New(rdb, nil)
		require.NoError(t, err)
		var log strings.Builder
		client, err := lock.New(store, &lock.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, err)
		for i := range 10 {
			for _, l := range []lock.Locker{client.Mutex(fmt.Sprint(i)), client.Semaphore(fmt.Sprint(i), 2), client.Batch("group", "a", "b")} {
				_, err := l.TryLock(t.Context())
				require.ErrorIs(t, err, lock.ErrUnavailable, name)
				require.NotErrorIs(t, err, lock.ErrNotAcquired, name)
				_, err = l.Lock(t.Context())
				require.ErrorIs(t, err, lock.ErrUnavailable, name)
			}
		}
		assert.Zero(t, client.Stats().Releasing, "nothing was sent")
		require.NoError(t, client.Close(t.Context()), name)
		assert.Equal(t, 1, strings.Count(log.String(), "\n"), log.String())
		assert.Contains(t, log.String(), "addresses=[127.0.0.1:1]")
		assert.NotContains(t, log.String(), "sesame")
	}
}

// A server that answers each request with an error gets few of them, whatever the error is: see "What a
// fault does" in OPERATIONS. If it has executed nothing, it gets one for each call, and no release.
func TestARefusingServerGetsFewRequests(t *testing.T) {
	t.Parallel()
	const (
		callers, candidates = 20, 5
		period              = 6 * time.Second
	)
	for reply, executedNothing := range map[string]bool{
		"-LOADING Redis is loading the dataset in memory":                           true,
		"-NOAUTH Authentication required.":                                          true,
		"-NOPERM this user has no permissions to run the 'evalsha' command":         true,
		"-READONLY You can't write against a read only replica.":                    true,
		"-CLUSTERDOWN The cluster is down":                                          true,
		"-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is 'no'": true,
		"-OOM command not allowed when used memory > 'maxmemory'.":                  true,
		"-MISCONF Redis is configured to save RDB snapshots":                        true,
		"-NOREPLICAS Not enough good replicas to write.":                            true,
		"-ERR max number of clients reached":                                        true,
		"-BUSY Redis is busy running a script.":                                     true,
		"-ERR unexpected":                                                           false,
		"$-1":                                                                       false,
		"+OK":                                                                       false,
		"HTTP/1.1 400 Bad Request":                                                  false,
	} {
		t.Run(reply, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				srv := &scriptedServer{refusal: []byte(reply + "\r\n")}
				rdb, closeAll := srv.client()
				defer closeAll()
				store, err := New(rdb, nil)
				require.NoError(t, err)
				client, err := lock.New(store, &lock.Options{Logger: slog.New(slog.DiscardHandler)})
				require.NoError(t, err)
				ctx, cancel := context.WithTimeout(t.Context(), 2*period+time.Second/2)
				defer cancel()
				calls := make([]int, callers)
				var all sync.WaitGroup
				for i := range callers { // each tries again once a second
					all.Go(func() {
						for ctx.Err() == nil {
							calls[i]++
							_, err := client.Mutex(fmt.Sprint(i)).Lock(ctx)
							assert.Error(t, err)
							select {
							case <-time.After(time.Second):
							case <-ctx.Done():
							}
						}
					})
				}
				for i := range candidates {
					all.Go(func() {
						_ = client.Election("e", fmt.Sprint(i)).Run(ctx, func(context.Context, *lock.Held) error { return nil })
					})
				}
				time.Sleep(period) // until releases have accumulated
				scripts, dials := srv.counts()
				time.Sleep(period)
				moreScripts, moreDials := srv.counts()
				scripts, dials = moreScripts-scripts, moreDials-dials
				releasing := client.Stats().Releasing
				all.Wait()
				t.Logf("%d scripts and %d dials in %v, %d releasing", scripts, dials, period, releasing)
				most := callers + candidates // a second
				if executedNothing {
					assert.Zero(t, releasing)
				} else {
					most = 3*most + 100 // two tries, the first release, and further releases
				}
				assert.LessOrEqual(t, scripts, most*int(period/time.Second))
				assert.LessOrEqual(t, dials, most*int(period/time.Second))
				closing, stop := context.WithTimeout(context.Background(), time.Second)
				defer stop()
				_ = client.Close(closing)
			})
		})
	}
}

// A Lock in the queue notices that the server does not answer any more.
func TestAServerThatStopsIsNoContention(t *testing.T) {
	t.Parallel()
	srv := shared.Server(t)
	synctest.Test(t, func(t *testing.T) {
		link, store := newLinked(t, srv, Options{Place: 300 * time.Millisecond})
		acquire(t, store, request("k"))
		client, err := lock.New(keptOpen{store}, &lock.Options{Terms: lock.Terms{TTL: 3 * time.Second}})
		require.NoError(t, err)
		defer func() { assert.NoError(t, client.Close(context.Background())) }()
		defer store.Close() // before the client is closed, which would wait for answers

		try := func() error {
			ctx, cancel := context.WithTimeout(t.Context(), 1500*time.Millisecond)
			defer cancel()
			_, err := client.Mutex("k").Lock(ctx)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			return err
		}
		err = try()
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		require.NotErrorIs(t, err, lock.ErrUnavailable)

		time.AfterFunc(500*time.Millisecond, func() { link.Delay(time.Hour) })
		err = try()
		require.ErrorIs(t, err, lock.ErrUnavailable)
		require.NotErrorIs(t, err, lock.ErrNotAcquired)
	})
}

// keptOpen is a store that its client does not close.
type keptOpen struct{ *Store }

func (keptOpen) Shutdown(context.Context) error { return nil }
