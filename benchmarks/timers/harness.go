package main

import "time"

// harness is no engine: its figures are the part that the harness itself has in
// those of all peers.
type harness struct {
	functions []func()
}

func newHarness(spec) engine[*int] { return &harness{} }

func (*harness) nop(time.Duration) *int             { return nil }
func (*harness) stop(*int)                          {}
func (*harness) reset(h *int, _ time.Duration) *int { return h }
func (*harness) every(time.Duration)                {}
func (*harness) close()                             {}

// fire keeps the function. All are called together, when the first is due, in an
// order unlike that in memory: what remains is the cost of the callbacks.
func (h *harness) fire(d time.Duration, due int64) {
	h.functions = append(h.functions, func() { arrived(due) })
	if len(h.functions) == 1 {
		time.AfterFunc(d, h.callAll)
	}
}

func (h *harness) callAll() {
	const stride = 611_953 // a prime, so each is called once
	n := len(h.functions)
	for i := range n {
		h.functions[i*stride%n]()
	}
	h.functions = nil
}
