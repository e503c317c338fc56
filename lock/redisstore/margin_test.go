package redisstore

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

// A margin may be as long as a place in the queue, or longer. A lock that is handed over then
// has no valid time left until the client acquires it again.
func TestAHandOverWithALongMargin(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]*lock.Options{
		"TTL 60 s, margin 9.5 s":   {Terms: lock.Terms{TTL: time.Minute}, Renewal: renewal.Options{Margin: 9500 * time.Millisecond}},
		"TTL 10 min, margin 1 min": {Terms: lock.Terms{TTL: 10 * time.Minute}, Renewal: renewal.Options{Margin: time.Minute}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			prefix := &Options{Prefix: t.Name() + ":"}
			locks := map[string]func(c *lock.Client) lock.Locker{
				"mutex":     func(c *lock.Client) lock.Locker { return c.Mutex("mutex") },
				"writer":    func(c *lock.Client) lock.Locker { return c.RWMutex("writer") },
				"semaphore": func(c *lock.Client) lock.Locker { return c.Semaphore("semaphore", 1) },
				"batch":     func(c *lock.Client) lock.Locker { return c.Batch("batch", "a", "b") },
			}
			const clients, rounds = 3, 5
			var wg sync.WaitGroup
			for range clients {
				c, err := lock.New(newStore(t, shared.Server(t).Client(t), prefix), o)
				require.NoError(t, err)
				wg.Go(func() {
					defer func() { assert.NoError(t, c.Close(context.Background())) }()
					for range rounds {
						for kind, of := range locks {
							h, err := of(c).Lock(t.Context())
							if !assert.NoError(t, err, kind) {
								return
							}
							assert.Greater(t, time.Until(h.Deadline()), o.TTL/2, kind)
							time.Sleep(5 * time.Millisecond) // so that other clients enter the queue
							assert.NoError(t, h.Unlock(t.Context()), kind)
						}
					}
				})
			}
			wg.Wait()
		})
	}
}
