// The engines that do nothing: their figures are the cost of the harness.

package main

import (
	"sync"
	"time"
)

// harness is an engine that does nothing. Its figures are what the harness itself
// adds to the figures of every peer.
type harness struct {
	functions []func()
	rng       xorshift
}

func newHarness(spec) engine[*int] { return &harness{rng: 1} }

func (*harness) noop(time.Duration) *int            { return nil }
func (*harness) stop(*int)                          {}
func (*harness) reset(h *int, _ time.Duration) *int { return h }
func (*harness) every(time.Duration)                {}
func (*harness) call(time.Duration, func())         {}
func (*harness) close()                             {}

// fire stores the function. When the first timer is due, the harness calls all of
// them in an order that differs from the order in memory. So each call needs a read
// from memory, a look at the clock and a count, as it does in an engine.
func (h *harness) fire(d time.Duration, due int64) {
	h.functions = append(h.functions, func() { recordFire(due) })
	last := len(h.functions) - 1
	other := h.rng.below(uint64(last) + 1)
	h.functions[last], h.functions[other] = h.functions[other], h.functions[last]
	if last == 0 {
		time.AfterFunc(d, h.callAll)
	}
}

func (h *harness) callAll() {
	for _, f := range h.functions {
		f()
	}
	h.functions = nil
}

// floor does only what no exact engine can avoid: schedule reads the clock and
// locks a mutex, stop locks it again.
type floor struct {
	harness
	mu  sync.Mutex
	due int64 // guarded by mu
}

func newFloor(spec) engine[*int] { return &floor{harness: harness{rng: 1}} }

func (f *floor) noop(d time.Duration) *int {
	due := now() + int64(d)
	f.mu.Lock()
	f.due = due
	f.mu.Unlock()
	return nil
}

func (f *floor) stop(*int) {
	f.mu.Lock()
	f.due = 0
	f.mu.Unlock()
}
