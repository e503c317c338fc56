// The monitors of all servers together.

package main

import (
	"context"
	"errors"
	"sync"
	"time"
)

// monitors holds a monitor for each server.
type monitors []*monitor

func newMonitors(ctx context.Context, s *servers, key func(int) string, t task) (monitors, error) {
	keys, err := s.keys(ctx, key, t.Leases)
	if err != nil {
		return nil, err
	}
	var all monitors
	for i, n := range s.nodes {
		if len(keys[i]) == 0 {
			return nil, errors.New("too few leases: a server has none")
		}
		all = append(all, newMonitor(n, keys[i], t))
	}
	return all, nil
}

// watch runs all monitors for the given time.
func (m monitors) watch(ctx context.Context, d time.Duration) error {
	errs := make([]error, len(m))
	var wg sync.WaitGroup
	for i, one := range m {
		wg.Go(func() { errs[i] = one.watch(ctx, d) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// begin drops earlier observations and starts to record.
func (m monitors) begin() {
	for _, one := range m {
		one.begin()
	}
}

// observed returns the observations of all monitors since begin.
func (m monitors) observed() observations {
	all := observations{smallestTTL: m[0].ttl}
	for _, one := range m {
		all.late = append(all.late, one.observed.late...)
		all.smallestTTL = min(all.smallestTTL, one.observed.smallestTTL)
	}
	return all
}

// missing counts the keys that do not exist.
func (m monitors) missing(ctx context.Context) (int, error) {
	sum := 0
	for _, one := range m {
		n, err := one.node.missing(ctx, one.keys)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}
