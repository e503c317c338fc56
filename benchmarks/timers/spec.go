package main

import (
	"fmt"
	"time"
)

// spec says what one sample does. It crosses to the process of the sample as JSON.
type spec struct {
	Work    string        `json:"work"`
	Pending int           `json:"pending,omitempty"`
	Tick    time.Duration `json:"tick,omitempty"`
	Buckets int           `json:"buckets,omitempty"`
	// For is how long is measured; for ops each of its kinds.
	For time.Duration `json:"for"`
}

// values are what a sample found.
type values map[string]float64

// slotsOf is the number of slots that peers get where a row says nothing: enough
// for four seconds at 1 ms, which spares those with rounds. The wheel keeps its
// default.
const slotsOf = 4096

// forPeer fills in what a peer needs.
func (s spec) forPeer(name string) spec {
	if s.Tick == 0 {
		s.Tick = fineTick
		if !suits(name, fineTick) {
			s.Tick = coarseTick
		}
	}
	if s.Buckets == 0 && name != "wheel" && name != "wheel-go" {
		s.Buckets = slotsOf
	}
	return s
}

// runOn makes the sample of a peer out of its engine.
func runOn[H any, E engine[H]](open func(spec) E) func(spec) (values, error) {
	return func(s spec) (values, error) {
		works := map[string]func(engine[H], spec) values{
			"ops":     ops[H],
			"replace": replace[H],
			"reset":   reset[H],
			"memory":  memory[H],
			"fire":    fire[H],
			"rearm":   rearm[H],
			"spread":  spread[H],
			"idle":    idle[H],
		}
		work, ok := works[s.Work]
		if !ok {
			return nil, fmt.Errorf("no work %q", s.Work)
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
