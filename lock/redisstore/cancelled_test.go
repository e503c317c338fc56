package redisstore

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// split is a store that sends requests through one Store and releases through another.
type split struct {
	*Store
	releases *Store
}

func (s *split) Release(ctx context.Context, l driver.Lease) error { return s.releases.Release(ctx, l) }

func (s *split) ReleaseAll(ctx context.Context, batch []driver.Lease, out []error) error {
	return s.releases.ReleaseAll(ctx, batch, out)
}

// The cause of the context looks like a reply of the server. A request that is unanswered
// when its context ends must be refused when the server executes it later.
func TestACancelledRequestTakesNothingLater(t *testing.T) {
	t.Parallel()
	for name, cause := range map[string]error{"HeldError": &driver.HeldError{Key: "other"}, "ErrWrongType": driver.ErrWrongType, "ErrBadKey": driver.ErrBadKey} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			srv := testredis.Start(t)
			proxy := testredis.StartProxy(t, srv)
			near, far := newStore(t, srv.Client(t), &Options{Prefix: "late:"}), newStore(t, proxy.Client(t), &Options{Prefix: "late:"})
			client, err := lock.New(&split{far, near}, nil)
			require.NoError(t, err)
			defer func() { assert.NoError(t, client.Close(context.Background())) }()
			writer, err := client.RWMutex("downgrade").Lock(t.Context())
			require.NoError(t, err)
			calls := map[string]func(ctx context.Context) error{
				"lock": func(ctx context.Context) error { _, err := client.Mutex("lock").Lock(ctx); return err },
				"try":  func(ctx context.Context) error { _, err := client.Mutex("try").TryLock(ctx); return err },
				"downgrade": func(ctx context.Context) error {
					_, err := client.RWMutex("downgrade").Downgrade(ctx, writer)
					return err
				},
			}
			for key, call := range calls {
				proxy.Block()
				ctx, cancel := context.WithCancelCause(t.Context())
				done := make(chan error, 1)
				go func() { done <- call(ctx) }()
				time.Sleep(500 * time.Millisecond) // the request is sent by then, even on a busy machine
				cancel(cause)
				err := <-done
				require.ErrorIs(t, err, driver.ErrUnavailable)
				require.ErrorContains(t, err, `"`+key+`"`)
				require.Eventually(t, func() bool { return client.Stats().Releasing == 0 }, 10*time.Second, time.Millisecond)
				assert.NotEmpty(t, srv.Client(t).Keys(t.Context(), "late:{"+key+"}:x:*").Val(), "a tombstone for %s", key)
				proxy.Unblock()
				_, err = client.Mutex("after " + key).Lock(t.Context()) // on the same connections
				require.NoError(t, err)
				acquire(t, near, driver.Request{Key: key, Owner: "another:1", TTL: time.Minute})
			}
		})
	}
}
