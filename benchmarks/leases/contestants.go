package main

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/renewal"
)

// contestant is a lock client under test.
type contestant struct {
	name string
	how  string // it keeps its locks
	ours bool

	// flatOut is how many locks it takes to keep the client as busy as it can be;
	// 0 means all that are held otherwise.
	flatOut int

	// key returns what the i-th lock is called on the server.
	key func(i int) string

	open func(order) (client, error)
}

// client is a lock client in a process of its own. It is never closed: its process
// ends.
type client interface {
	// lock gets the i-th lock and keeps it from then on.
	lock(ctx context.Context, i int) error

	// allHeld is called once, when it has all its locks.
	allHeld()

	// tell returns what the client knows of its locks.
	tell() tally
}

// tally is what a client knows of its locks.
type tally struct {
	lost int               // their holders were told
	late renewal.Histogram // how late renewals were sent; ours only
}

// contestants returns all of them, in the order of the table.
func contestants() []contestant {
	return []contestant{wheelEngine, heapEngine, redsyncPeer, redislockPeer, rueidisPeer, rueidisDefaultPeer}
}

func find(name string) (contestant, error) {
	for _, c := range contestants() {
		if c.name == name {
			return c, nil
		}
	}
	return contestant{}, fmt.Errorf("there is no contestant %q", name)
}

// lockName returns the name of the i-th lock.
func lockName(i int) string { return "bench:" + strconv.Itoa(i) }

// lockAll gets the locks from the given one up to another, many at a time.
func lockAll(ctx context.Context, c client, from, to int) error {
	const atATime = 64
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for worker := range atATime {
		wg.Go(func() {
			for i := from + worker; i < to && ctx.Err() == nil; i += atATime {
				if err := c.lock(ctx, i); err != nil {
					cancel(fmt.Errorf("lock %d of %d: %w", i, to, err))
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// sleep waits, unless ctx ends before.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
