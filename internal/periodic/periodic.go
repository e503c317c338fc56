// Package periodic runs a check from time to time while there is something to check. It uses
// a runtime timer, so it needs no goroutine that could be blocked by what it checks.
package periodic

import (
	"sync"
	"sync/atomic"
	"time"
)

// Interval is the longest time from Need to the next check. To distinguish a long time from a pause
// of the whole process, require that two checks in a row find the same state.
const Interval = time.Second

// Check calls a function while it is needed. Otherwise no timer is set.
type Check struct {
	check func() (next time.Duration)
	state atomic.Int32 // written with mu held

	mu      sync.Mutex // guards the fields below
	timer   *time.Timer
	pending int // calls of run that the timer will start or has started
	closed  bool
	idle    sync.Cond // on mu: pending is 0
}

// The states of a Check. Need makes it near, a call makes it unset, and a call that returns a
// long time makes it far.
const (
	unset int32 = iota // no call will come
	far                // the next call comes in more than an Interval
	near               // the next call comes within an Interval
)

// Init sets the function. It returns the time after which it must be called again even
// without Need, or 0 if it need not. A call can overlap an earlier one that takes long.
func (c *Check) Init(check func() (next time.Duration)) {
	c.check = check
	c.idle.L = &c.mu
}

// Need makes sure that a call comes within an Interval. It takes one atomic load if one will
// come anyway.
func (c *Check) Need() {
	if c.state.Load() != near {
		c.arm(near, Interval)
	}
}

// arm sets the timer, unless it is set to an earlier time.
func (c *Check) arm(state int32, d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || c.state.Load() >= state {
		return
	}
	c.state.Store(state)
	switch {
	case c.timer == nil:
		c.timer = time.AfterFunc(d, c.run)
		c.pending++
	case !c.timer.Reset(d):
		c.pending++
	}
}

func (c *Check) run() {
	defer c.done()
	c.mu.Lock()
	c.state.Store(unset) // before the call, so that a Need after it sets the timer
	c.mu.Unlock()
	switch next := c.check(); {
	case next > Interval:
		c.arm(far, next)
	case next > 0:
		c.Need()
	}
}

func (c *Check) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pending--
	if c.pending == 0 {
		c.idle.Broadcast()
	}
}

// Close ends the calls and waits for one that is in progress. It may be called again.
func (c *Check) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	if c.timer != nil && c.timer.Stop() {
		c.pending--
	}
	for c.pending > 0 {
		c.idle.Wait()
	}
}
