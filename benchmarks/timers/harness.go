package main

import "time"

// harness is no engine: its figures are the part that the harness itself has in
// those of all peers.
type harness struct {
	functions []func()
	dice      dice
}

func newHarness(spec) engine[*int] { return &harness{dice: 1} }

func (*harness) nop(time.Duration) *int             { return nil }
func (*harness) stop(*int)                          {}
func (*harness) reset(h *int, _ time.Duration) *int { return h }
func (*harness) every(time.Duration)                {}
func (*harness) close()                             {}

// fire keeps the function. All are called when the first is due, in an order
// unlike that in memory, as an engine would: each costs a fetch from memory, a look
// at the clock and a count.
func (h *harness) fire(d time.Duration, due int64) {
	h.functions = append(h.functions, func() { arrived(due) })
	last := len(h.functions) - 1
	other := h.dice.below(uint64(last) + 1)
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
