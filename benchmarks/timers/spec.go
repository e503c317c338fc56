// The specification of one sample, and the work that it names.

package main

import (
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

// spec describes one sample. The parent passes it to the process of the sample as
// JSON.
type spec struct {
	Work    string        `json:"work"`
	Pending int           `json:"pending,omitempty"`
	Tick    time.Duration `json:"tick,omitempty"`
	Buckets int           `json:"buckets,omitempty"`
	Over    time.Duration `json:"over,omitempty"` // probe: the time over which the other timers come due
	// For is how long the sample measures. Samples of ops measure that long three
	// times.
	For time.Duration `json:"for"`
}

// values are the figures of a sample by name.
type values = bench.Values

// name returns the name of the work in the results. It does not depend on For, which a quick run shortens.
func (s spec) name() string {
	text := s.Work
	if s.Pending > 0 {
		text += fmt.Sprintf(" %d", s.Pending)
	}
	if s.Over > 0 {
		text += fmt.Sprintf(" over %v", s.Over)
	}
	if s.Tick > 0 {
		text += fmt.Sprintf(", tick %v", s.Tick)
	}
	if s.Buckets > 0 {
		text += fmt.Sprintf(", %d buckets", s.Buckets)
	}
	return text
}

// peerSlots is the number of slots of a peer unless the row sets one: four seconds
// at a tick of 1 ms, so that few timers need a second round. The wheel keeps its
// default.
const peerSlots = 4096

// forPeer returns the spec with the tick and the slots of a peer.
func (s spec) forPeer(name string) spec {
	if s.Tick == 0 {
		s.Tick = fineTick
		if !hasTick(name, fineTick) {
			s.Tick = coarseTick
		}
	}
	if s.Buckets == 0 && name != "wheel" && name != "wheel-go" {
		s.Buckets = peerSlots
	}
	return s
}

// runOn returns the function that takes a sample of a peer.
func runOn[H any, E engine[H]](open func(spec) E) func(spec) (values, error) {
	return func(s spec) (values, error) {
		works := map[string]func(engine[H], spec) values{
			"ops":      ops[H],
			"replace":  replace[H],
			"reset":    reset[H],
			"memory":   memory[H],
			"fire":     fire[H],
			"rearm":    rearm[H],
			"spread":   spread[H],
			"probe":    probe[H],
			"idle":     idle[H],
			"channels": channels[H],
			"contexts": contexts[H],
		}
		work, ok := works[s.Work]
		if !ok {
			return nil, fmt.Errorf("unknown work %q", s.Work)
		}
		e := open(s)
		defer e.close()
		return work(e, s), nil
	}
}

func must(err error) {
	if err != nil {
		panic(err)
	}
}
