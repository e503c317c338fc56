// The candidates, and the acquisition of their locks.

package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/renewal"
)

// candidate is a lock client under test.
type candidate struct {
	name string
	ours bool

	// saturating is how many locks keep the client as busy as it can be. 0 means all
	// locks of the run.
	saturating int

	// key returns the name of the i-th lock on the server.
	key func(i int) string

	open func(task) (client, error)
}

// client is a lock client in a process of its own. The benchmark never closes it,
// because its process ends.
type client interface {
	// lock acquires the i-th lock and keeps it.
	lock(ctx context.Context, i int) error

	// ready is called once, after all locks are acquired.
	ready()

	// stats returns what the client knows about its locks.
	stats() clientStats
}

// clientStats is what a client knows about its locks.
type clientStats struct {
	lost int               // losses that the client reported
	late renewal.Histogram // how late renewals were sent; only our clients know
}

// candidates returns all candidates in the order of the table.
func candidates() []candidate {
	return []candidate{wheelEngine, heapEngine, redsyncPeer, redislockPeer, rueidisPeer, rueidisDefaultPeer}
}

func findCandidate(name string) (candidate, error) {
	for _, c := range candidates() {
		if c.name == name {
			return c, nil
		}
	}
	return candidate{}, fmt.Errorf("unknown candidate %q", name)
}

// lockName returns the name of the i-th lock.
func lockName(i int) string { return "bench:" + strconv.Itoa(i) }

// acquirers is the number of goroutines that acquire locks.
const acquirers = 64

// lockRange acquires the locks of [from, to).
func lockRange(ctx context.Context, c client, from, to int) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for worker := range acquirers {
		wg.Go(func() {
			for i := from + worker; i < to && ctx.Err() == nil; i += acquirers {
				if err := c.lock(ctx, i); err != nil {
					cancel(fmt.Errorf("lock %d of %d: %w", i, to, err))
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// sleep returns after d, or when ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
