package lock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"
)

const (
	maxOrphans      = 10_000                 // leases waiting for the cleaner; beyond, their TTL ends them
	maxCleaners     = 16                     // goroutines
	cleanTimeout    = 2 * time.Second        // for one release
	cleanPause      = 100 * time.Millisecond // after one that failed, doubled each time
	maxCleanPause   = 2 * time.Second
	releasesAtATime = 64 // at Close
)

// cleaner releases, in the background and in bounded number, what was acquired
// for nobody or could not be released: until the store confirms it, or until one
// TTL has passed, when the store has let go of it. Its goroutines exist only
// while there is something to do.
type cleaner struct {
	store  Store
	logger *slog.Logger
	ctx    context.Context // ends the pauses, and the releases under way
	cancel context.CancelFunc

	mu      sync.Mutex // guards all below
	queue   []orphan
	open    int // orphans queued and being released
	busy    int // goroutines
	closed  bool
	left    []Lease       // given up at close
	drained chan struct{} // closed when closed and no goroutine is left
}

type orphan struct {
	lease Lease
	until time.Time
}

func (c *cleaner) init(store Store, logger *slog.Logger) {
	c.store, c.logger = store, logger
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.drained = make(chan struct{})
}

// add takes over a lease. It does not wait for the store.
func (c *cleaner) add(l Lease) {
	if !c.enqueue(l) {
		c.logger.Warn("lock: too many locks to release in the background, one is left to its TTL", slog.Any("lease", l))
	}
}

func (c *cleaner) enqueue(l Lease) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		c.left = append(c.left, l)
		return true
	case len(c.queue) >= maxOrphans:
		return false
	}
	c.queue = append(c.queue, orphan{l, time.Now().Add(l.TTL)})
	c.open++
	if c.busy < maxCleaners {
		c.busy++
		go c.work()
	}
	return true
}

func (c *cleaner) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.open
}

func (c *cleaner) work() {
	for {
		c.mu.Lock()
		if c.closed || len(c.queue) == 0 {
			c.busy--
			if c.closed && c.busy == 0 {
				close(c.drained)
			}
			c.mu.Unlock()
			return
		}
		o := c.queue[0]
		c.queue = c.queue[1:]
		if len(c.queue) == 0 {
			c.queue = nil // let go of the array
		}
		c.mu.Unlock()
		done := c.clean(o)
		c.mu.Lock()
		c.open--
		if !done {
			c.left = append(c.left, o.lease)
		}
		c.mu.Unlock()
	}
}

// clean releases one lease, however many tries that takes. It returns false if
// the cleaner was closed before.
func (c *cleaner) clean(o orphan) bool {
	for pause := cleanPause; ; pause = min(2*pause, maxCleanPause) {
		left := time.Until(o.until)
		if left <= 0 {
			return true
		}
		ctx, cancel := context.WithTimeout(c.ctx, min(left, cleanTimeout))
		err := c.store.Release(ctx, o.lease)
		cancel()
		if err == nil || errors.Is(err, ErrNotHeld) {
			return true
		}
		timer := time.NewTimer(min(left, pause))
		select {
		case <-timer.C:
		case <-c.ctx.Done():
			timer.Stop()
			return false
		}
	}
}

// close ends the cleaner and returns what it has not released.
func (c *cleaner) close(ctx context.Context) ([]Lease, error) {
	c.mu.Lock()
	c.closed = true
	if c.busy == 0 {
		close(c.drained)
	}
	c.mu.Unlock()
	c.cancel()
	var err error
	select {
	case <-c.drained:
	case <-ctx.Done():
		err = fmt.Errorf("lock: Close: a release is still under way: %w", context.Cause(ctx))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	left := c.left
	for _, o := range c.queue {
		left = append(left, o.lease)
	}
	c.open -= len(c.queue)
	c.left, c.queue = nil, nil
	return left, err
}

// releaseAll releases leases many at a time, as far as it gets within ctx.
func releaseAll(ctx context.Context, store Store, leases []Lease) error {
	var mu sync.Mutex // guards next, failed and first
	var next, failed int
	var first error
	var wg sync.WaitGroup
	for range min(releasesAtATime, len(leases)) {
		wg.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= len(leases) {
					return
				}
				err := ctx.Err()
				if err == nil {
					err = store.Release(ctx, leases[i])
				}
				if err != nil && !errors.Is(err, ErrNotHeld) {
					mu.Lock()
					failed++
					if first == nil {
						first = err
					}
					mu.Unlock()
				}
			}
		})
	}
	wg.Wait()
	if failed > 0 {
		return fmt.Errorf("lock: Close: %d of %d locks not released, their TTL ends them: %w", failed, len(leases), first)
	}
	return nil
}
