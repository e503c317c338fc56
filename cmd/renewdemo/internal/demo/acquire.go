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

// acquire takes all locks. The first error ends it.
func (d *demo) acquire(ctx context.Context) error {
	start := time.Now()
	d.held = make([]*lock.Held, d.leases)
	numbers := make([]int, d.leases)
	for i := range numbers {
		numbers[i] = i
	}
	acquiring, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	d.lockEach(acquiring, numbers, func(i int, h *lock.Held, err error) {
		if err != nil {
			cancel(err)
			return
		}
		d.held[i] = h
	})
	switch {
	case ctx.Err() != nil:
		return errInterrupted
	case acquiring.Err() != nil:
		return fmt.Errorf("acquire: %w", context.Cause(acquiring))
	}
	d.screen.line("acquired in %v", time.Since(start).Round(time.Millisecond))
	return nil
}

// lockEach tries once to lock each of the keys, with several goroutines, which call result.
func (d *demo) lockEach(ctx context.Context, numbers []int, result func(i int, h *lock.Held, err error)) {
	const workers = 64
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(workers, len(numbers)) {
		wg.Go(func() {
			for ctx.Err() == nil {
				n := int(next.Add(1)) - 1
				if n >= len(numbers) {
					return
				}
				h, err := d.client.Mutex(d.keyOf(numbers[n])).TryLock(ctx)
				result(numbers[n], h, err)
			}
		})
	}
	wg.Wait()
}

// release closes the client, which releases all locks.
func (d *demo) release(ctx context.Context) error {
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer cancel()
	return d.client.Close(closing)
}

// releaseInterrupted releases all locks after a signal, and returns an error that reports it.
func (d *demo) releaseInterrupted(ctx context.Context) error {
	held := d.client.Stats().Renewal.Held
	if err := d.release(ctx); err != nil {
		return fmt.Errorf("%w: %w", errInterrupted, err)
	}
	return fmt.Errorf("%w: released %s leases", errInterrupted, count(held))
}
