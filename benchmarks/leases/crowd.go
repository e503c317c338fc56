package main

import (
	"context"
	"errors"
	"sync"
	"time"
)

// crowd is a witness for each server of a site.
type crowd []*witness

func newCrowd(ctx context.Context, s *site, key func(int) string, o order) (crowd, error) {
	keys, err := s.keys(ctx, key, o.Leases)
	if err != nil {
		return nil, err
	}
	var c crowd
	for i, n := range s.nodes {
		if len(keys[i]) == 0 {
			return nil, errors.New("too few locks: a server has none")
		}
		c = append(c, newWitness(n, keys[i], o))
	}
	return c, nil
}

// watch lets all look, for the given time.
func (c crowd) watch(ctx context.Context, d time.Duration) error {
	errs := make([]error, len(c))
	var wg sync.WaitGroup
	for i, w := range c {
		wg.Go(func() { errs[i] = w.watch(ctx, d) })
	}
	wg.Wait()
	return errors.Join(errs...)
}

// begin lets all forget what they saw, and note what comes.
func (c crowd) begin() {
	for _, w := range c {
		w.begin()
	}
}

// seen returns what all saw since begin.
func (c crowd) seen() sightings {
	all := sightings{least: c[0].ttl}
	for _, w := range c {
		all.late = append(all.late, w.seen.late...)
		all.least = min(all.least, w.seen.least)
	}
	return all
}

// missing counts the keys that are not there.
func (c crowd) missing(ctx context.Context) (int, error) {
	sum := 0
	for _, w := range c {
		n, err := w.node.missing(ctx, w.keys)
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return sum, nil
}
