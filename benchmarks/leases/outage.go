// The lateness of renewals while one master of a cluster fails.

package main

import "context"

// outage is how late the leases of the healthy masters of a cluster are renewed, in
// ms, while one master fails.
type outage struct {
	HangingP99, HangingMax float64 // the master accepts connections and answers nothing
	DeadP99, DeadMax       float64 // the master has ended
	Missing                int     // keys of the healthy masters that do not exist at the end
}

// failOneMaster stops the last master, continues it, and then kills it.
func (p plan) failOneMaster(ctx context.Context, s *servers, all monitors) (*outage, error) {
	last := len(s.nodes) - 1
	failing, healthy := s.nodes[last].server, all[:last]
	var out outage

	if err := failing.Stop(); err != nil {
		return nil, err
	}
	healthy.begin()
	if err := healthy.watch(ctx, p.outage); err != nil {
		return nil, err
	}
	out.HangingP99, out.HangingMax = tail(healthy.observed())
	if err := failing.Cont(); err != nil {
		return nil, err
	}
	if err := healthy.watch(ctx, p.outage/4); err != nil {
		return nil, err
	}

	failing.Kill()
	healthy.begin()
	if err := healthy.watch(ctx, p.outage); err != nil {
		return nil, err
	}
	out.DeadP99, out.DeadMax = tail(healthy.observed())
	var err error
	out.Missing, err = healthy.missing(ctx)
	return &out, err
}

func tail(o observations) (p99, worst float64) { return ms(o.quantile(0.99)), ms(o.quantile(1)) }
