package redisstore

import (
	"context"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

// L5: a connection that is being made to a server that does not answer holds up Close
// for no time.
func TestCloseEndsWhatIsDialed(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"acquire", "renew", "wait"} {
		synctest.Test(t, func(t *testing.T) {
			dials := 0
			rdb := redis.NewClient(&redis.Options{
				Addr: "127.0.0.1:1",
				Dialer: func(ctx context.Context, _, _ string) (net.Conn, error) {
					dials++
					<-ctx.Done()
					return nil, context.Cause(ctx)
				},
			})
			defer rdb.Close()
			s, err := New(rdb, nil)
			require.NoError(t, err)
			failed := make(chan error, 1)
			go func() {
				l := lock.Lease{Request: request("k"), Token: 1}
				switch name {
				case "acquire":
					_, err = s.Acquire(t.Context(), l.Request)
				case "renew":
					err = s.Renew(t.Context(), []lock.Lease{l}, make([]renewal.Outcome, 1))
				case "wait":
					_, err = s.Wait(t.Context(), l.Request)
				}
				failed <- err
			}()
			synctest.Wait()
			require.Equal(t, 1, dials, name)
			start := time.Now()
			require.NoError(t, s.Close())
			assert.Zero(t, time.Since(start), name)
			require.ErrorIs(t, <-failed, lock.ErrClosed, name)
		})
	}
}
