package lock

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"
)

const (
	maxOrphans    = 10_000                 // leases that the cleaner has at most; beyond, their TTL ends them
	maxCleaners   = 16                     // goroutines
	cleanTimeout  = 2 * time.Second        // for one release
	cleanPause    = 100 * time.Millisecond // after one that failed, doubled each time
	maxCleanPause = 2 * time.Second
)

// cleaner releases, in the background and in bounded number, what was acquired
// for nobody or could not be released: until the store confirms it, or until one
// TTL has passed, when the store has let go of it. A goroutine tries a lease once
// and goes on to the next, so a key that fails holds up no other; and it exists
// only while there is something to try.
type cleaner struct {
	store  Store
	logger *slog.Logger
	ctx    context.Context // of the releases
	cancel context.CancelFunc

	mu      sync.Mutex // guards all below
	queue   []*orphan  // to be tried
	open    map[*orphan]struct{}
	busy    int // goroutines
	closed  bool
	drained chan struct{} // closed when closed and no goroutine is left
}

// orphan is a lease to be released.
type orphan struct {
	lease Lease
	until time.Time
	pause time.Duration // before the next try
	timer *time.Timer   // puts it into the queue then
}

func (c *cleaner) init(store Store, logger *slog.Logger) {
	c.store, c.logger = store, logger
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.open = make(map[*orphan]struct{})
	c.drained = make(chan struct{})
}

// add takes over a lease. It does not wait for the store.
func (c *cleaner) add(l Lease) {
	if why := c.adopt(l); why != "" {
		c.logger.Warn("lock: a lock cannot be released and is left to its TTL", slog.Any("lease", l), slog.String("reason", why))
	}
}

// adopt is add; it says why not, if it does not.
func (c *cleaner) adopt(l Lease) (why string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.closed:
		return "the client is closed"
	case len(c.open) >= maxOrphans:
		return "too many are waiting"
	}
	o := &orphan{lease: l, until: time.Now().Add(l.TTL), pause: cleanPause}
	c.open[o] = struct{}{}
	c.enqueue(o)
	return ""
}

// enqueue has an orphan tried next. The caller holds mu.
func (c *cleaner) enqueue(o *orphan) {
	c.queue = append(c.queue, o)
	if c.busy < maxCleaners {
		c.busy++
		go c.work()
	}
}

func (c *cleaner) len() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.open)
}

func (c *cleaner) work() {
	ended := false
	defer func() {
		if !ended {
			go c.work() // the store called runtime.Goexit: the next goroutine goes on
		}
	}()
	for o := c.next(); o != nil; o = c.next() {
		c.clean(o)
	}
	ended = true
}

// clean tries an orphan, and forgets it or has it tried again.
func (c *cleaner) clean(o *orphan) {
	done := false
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.settle(o, done)
	}()
	done = c.try(o)
}

// next takes an orphan to try; nil ends the goroutine.
func (c *cleaner) next() *orphan {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.queue) == 0 {
		c.queue = nil // let go of the array; at close they are still in open
		c.busy--
		if c.closed && c.busy == 0 {
			close(c.drained)
		}
		return nil
	}
	o := c.queue[0]
	c.queue[0] = nil
	c.queue = c.queue[1:]
	return o
}

// try releases an orphan and reports whether no further try is of use.
func (c *cleaner) try(o *orphan) bool {
	ctx, cancel := context.WithTimeout(c.ctx, cleanTimeout)
	defer cancel()
	err := c.store.Release(ctx, o.lease)
	return err == nil || errors.Is(err, ErrNotHeld) || final(err)
}

// settle forgets an orphan that is done with, or has it tried again later. The
// caller holds mu.
func (c *cleaner) settle(o *orphan, done bool) {
	left := time.Until(o.until)
	switch {
	case done || left <= 0:
		delete(c.open, o)
	case !c.closed:
		o.timer = time.AfterFunc(min(o.pause, left), func() { c.again(o) })
		o.pause = min(2*o.pause, maxCleanPause)
	}
}

func (c *cleaner) again(o *orphan) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.enqueue(o)
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
	err := await(ctx, c.drained, "a release")
	c.mu.Lock()
	defer c.mu.Unlock()
	var left []Lease
	for o := range c.open {
		if o.timer != nil {
			o.timer.Stop()
		}
		left = append(left, o.lease)
	}
	clear(c.open)
	return left, err
}
