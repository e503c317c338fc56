package main

import "context"

// outage is how late leases of the healthy masters of a cluster are renewed, in
// ms, while one master is in trouble.
type outage struct {
	HangingP99, HangingMax float64 // it hangs: it accepts connections and answers nothing
	DeadP99, DeadMax       float64 // it is gone
	Missing                int     // keys that were not there at the end, on the healthy ones
}

// breakOne stops the last master of a site, lets it go on, and kills it.
func (p plan) breakOne(ctx context.Context, s *site, all crowd) (*outage, error) {
	last := len(s.nodes) - 1
	sick, healthy := s.nodes[last].server, all[:last]
	var out outage

	if err := sick.Stop(); err != nil {
		return nil, err
	}
	healthy.begin()
	if err := healthy.watch(ctx, p.outage); err != nil {
		return nil, err
	}
	out.HangingP99, out.HangingMax = worst(healthy.seen())
	if err := sick.Cont(); err != nil {
		return nil, err
	}
	if err := healthy.watch(ctx, p.outage/4); err != nil {
		return nil, err
	}

	sick.Kill()
	healthy.begin()
	if err := healthy.watch(ctx, p.outage); err != nil {
		return nil, err
	}
	out.DeadP99, out.DeadMax = worst(healthy.seen())
	var err error
	out.Missing, err = healthy.missing(ctx)
	return &out, err
}

func worst(s sightings) (p99, most float64) { return ms(s.quantile(0.99)), ms(s.quantile(1)) }
