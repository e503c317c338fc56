// The monitors of the servers, which see renewals from outside.

package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	pollInterval = 100 * time.Millisecond
	pollRate     = 1000 // keys per second
)

// monitor observes the keys of one server from outside of the process that renews
// them. It polls the expiry time of some keys four times in a period. When an expiry time has moved, the key was renewed
// one TTL before it. So the server's clock shows when each renewal took effect, no
// matter when the monitor polls.
type monitor struct {
	node   *node
	keys   []string
	period time.Duration

	tracked   []trackedKey
	next      int // index in tracked
	recording bool
	observed  observations
}

// trackedKey is a key whose renewals the monitor follows.
type trackedKey struct {
	key    string
	expiry time.Duration // since 1970; 0 means unknown
}

// observations has an element for each renewal: the time by which it followed the last one of the key after more than a
// period, or 0.
type observations []time.Duration

func newMonitor(n *node, keys []string, t task) *monitor {
	m := &monitor{node: n, keys: keys, period: t.period()}
	count := min(len(keys), max(1, int(pollRate*m.period.Seconds()/4)))
	for _, i := range rand.Perm(len(keys))[:count] {
		m.tracked = append(m.tracked, trackedKey{key: keys[i]})
	}
	return m
}

// watch polls for the given time, or until ctx ends.
func (m *monitor) watch(ctx context.Context, d time.Duration) error {
	ticker := time.NewTicker(pollInterval)
	defer ticker.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); {
		if err := m.poll(ctx); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
	return nil
}

// poll makes one round trip.
func (m *monitor) poll(ctx context.Context) error {
	count := min(int(pollRate*pollInterval.Seconds()), len(m.tracked))
	expiries := make([]*redis.DurationCmd, count)
	_, err := m.node.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i := range expiries {
			expiries[i] = p.PExpireTime(ctx, m.tracked[(m.next+i)%len(m.tracked)].key)
		}
		return nil
	})
	if err != nil {
		return err
	}
	for i := range expiries {
		m.recordExpiry(&m.tracked[(m.next+i)%len(m.tracked)], expiries[i].Val())
	}
	m.next = (m.next + count) % len(m.tracked)
	return nil
}

// recordExpiry compares the expiry time of a tracked key with the one before.
func (m *monitor) recordExpiry(k *trackedKey, expiry time.Duration) {
	switch {
	case expiry <= 0:
		k.expiry = 0 // the key does not exist, or never expires
	case k.expiry == 0:
		k.expiry = expiry
	case expiry != k.expiry:
		if m.recording {
			m.observed = append(m.observed, max(0, expiry-k.expiry-m.period))
		}
		k.expiry = expiry
	}
}

// begin drops earlier observations and starts to record.
func (m *monitor) begin() {
	m.recording = true
	m.observed = nil
}

// quantile returns a lateness that a share q of the renewals did not exceed.
func (o observations) quantile(q float64) time.Duration {
	if len(o) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(o))
	return sorted[min(int(q*float64(len(sorted))), len(sorted)-1)]
}

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
func (m monitors) observed() (all observations) {
	for _, one := range m {
		all = append(all, one.observed...)
	}
	return all
}

// missing counts the keys that do not exist.
func (m monitors) missing(ctx context.Context) (float64, error) {
	sum := 0.0
	for _, one := range m {
		n, err := one.node.missing(ctx, one.keys)
		if err != nil {
			return 0, err
		}
		sum += float64(n)
	}
	return sum, nil
}
