// Acquiring and releasing all locks of the demo.

package demo

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasewheel/leasewheel/lock"
)

// errInterrupted is the result of a run that a signal has ended.
var errInterrupted = errors.New("interrupted")

// acquire takes all locks and shows the progress.
func (d *demo) acquire(ctx context.Context) error {
	start := time.Now()
	d.held = make([]*lock.Held, d.leases)
	var done atomic.Int64
	err := d.watch("acquiring", d.leases, func() int { return int(done.Load()) }, func() error { return d.lockAll(ctx, &done) })
	switch {
	case ctx.Err() != nil:
		return errInterrupted
	case err != nil:
		return fmt.Errorf("acquire: %w", err)
	}
	d.screen.line("acquired in %v", time.Since(start).Round(time.Millisecond))
	return nil
}

// lockAll locks all keys with several goroutines, counts the locks in done, and returns the
// first error. The first error ends all goroutines.
func (d *demo) lockAll(ctx context.Context, done *atomic.Int64) error {
	const workers = 64
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= d.leases {
					return
				}
				h, err := d.client.Mutex(fmt.Sprint(d.prefix, i)).TryLock(ctx)
				if err != nil {
					cancel(err)
					return
				}
				d.held[i] = h
				done.Add(1)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// release closes the client, which releases all locks, and shows the progress.
func (d *demo) release(ctx context.Context) error {
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return d.watch("releasing", d.client.Stats().Renewal.Held, d.store.released, func() error { return d.client.Close(closing) })
}
