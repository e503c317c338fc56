// The measurement of a candidate, from its first lock to its figures.

package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

// plan says what to measure and how long.
type plan struct {
	leases   int
	ttl      time.Duration
	settle   time.Duration // between acquiring and measuring
	window   time.Duration // measured
	saturate time.Duration // measured while the client renews without pause
	outage   time.Duration // measured with one master hanging, and with it dead
	profiles string        // folder for CPU profiles, or ""
}

// target is a candidate on a single server, or on a cluster.
type target struct {
	candidate
	clustered bool
}

// measure measures a target. idle is the result of plan.idle.
func (p plan) measure(ctx context.Context, t target, idle float64) (figures, error) {
	f, err := p.hold(ctx, t, idle)
	if err != nil {
		return f, err
	}
	f.Saturated, err = p.saturated(ctx, t)
	return f, err
}

// hold measures a target while it keeps its locks.
func (p plan) hold(ctx context.Context, t target, idle float64) (figures, error) {
	s, err := startServers(ctx, t.clustered)
	if err != nil {
		return figures{}, err
	}
	defer s.close()
	work := task{Candidate: t.name, Addrs: s.addrs(), Leases: p.leases, TTL: p.ttl, Profile: p.profiles}
	began := time.Now()
	process, err := bench.Start[childResult](work)
	if err != nil {
		return figures{}, err
	}
	defer process.Kill()
	acquired := time.Since(began)

	m, err := newMonitors(ctx, s, t.key, work)
	if err != nil {
		return figures{}, err
	}
	if err := m.watch(ctx, p.settle); err != nil {
		return figures{}, err
	}
	m.begin()
	r, err := s.measureDuring(ctx, process, func() error { return m.watch(ctx, p.window) })
	if err != nil {
		return figures{}, err
	}
	f := r.figures(idle * float64(len(s.nodes)))
	f.At = time.Now().UTC().Truncate(time.Second)
	f.AcquireSeconds = acquired.Seconds()
	observed := m.observed()
	f.LateP50, f.LateP99 = ms(observed.quantile(0.5)), ms(observed.quantile(0.99))
	f.SmallestPTTL = ms(observed.smallestTTL)
	if f.Missing, err = m.missing(ctx); err != nil {
		return figures{}, err
	}
	if t.clustered {
		f.Outage, err = p.failOneMaster(ctx, s, m)
	}
	return f, err
}

// saturated measures the highest number of renewals per second of a target.
func (p plan) saturated(ctx context.Context, t target) (float64, error) {
	s, err := startServers(ctx, t.clustered)
	if err != nil {
		return 0, err
	}
	defer s.close()
	work := task{Candidate: t.name, Addrs: s.addrs(), Leases: p.leases, TTL: p.ttl, Saturate: true}
	if t.saturating > 0 {
		work.Leases = min(p.leases, t.saturating)
	}
	process, err := bench.Start[childResult](work)
	if err != nil {
		return 0, err
	}
	defer process.Kill()
	if err := sleep(ctx, p.saturate/4); err != nil {
		return 0, err
	}
	r, err := s.measureDuring(ctx, process, func() error { return sleep(ctx, p.saturate) })
	if err != nil {
		return 0, err
	}
	if r.child.Lost > 0 {
		return 0, fmt.Errorf("%d of %d locks lost while renewing without pause", r.child.Lost, work.Leases)
	}
	return r.rate(), nil
}

// idle measures the share of a core that a server needs which holds as many keys and
// has the same monitor, but has nothing to renew.
func (p plan) idle(ctx context.Context) (float64, error) {
	s, err := startServers(ctx, false)
	if err != nil {
		return 0, err
	}
	defer s.close()
	m, err := newMonitors(ctx, s, lockName, task{Leases: p.leases, TTL: p.ttl})
	if err != nil {
		return 0, err
	}
	if err := s.nodes[0].setKeys(ctx, p.leases); err != nil {
		return 0, err
	}
	before, err := s.readStats(ctx)
	if err != nil {
		return 0, err
	}
	if err := m.watch(ctx, p.window/4); err != nil {
		return 0, err
	}
	after, err := s.readStats(ctx)
	return (after.cpu - before.cpu).Seconds() / after.at.Sub(before.at).Seconds(), err
}

// setKeys sets keys with values as long as those of locks.
func (n *node) setKeys(ctx context.Context, count int) error {
	const pipeline = 10_000
	const value = "a value with the length of an owner and token"
	for from := 0; from < count; from += pipeline {
		_, err := n.rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
			for i := from; i < min(from+pipeline, count); i++ {
				pipe.Set(ctx, lockName(i), value, time.Hour)
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// interval is what a child and its servers did between two readings.
type interval struct {
	before, after serverStats
	child         childResult
	others        float64 // cores that other processes used
}

// measureDuring measures a child and its servers while f runs.
func (s *servers) measureDuring(ctx context.Context, process *bench.Process[childResult], f func() error) (i interval, err error) {
	if err := s.resetStats(ctx); err != nil {
		return i, err
	}
	if _, err := process.Call(beginRequest); err != nil {
		return i, err
	}
	machine, own, err := bench.MachineCPU()
	if err != nil {
		return i, err
	}
	if i.before, err = s.readStats(ctx); err != nil {
		return i, err
	}
	if err := f(); err != nil {
		return i, err
	}
	if i.after, err = s.readStats(ctx); err != nil {
		return i, err
	}
	machineAfter, ownAfter, err := bench.MachineCPU()
	if err != nil {
		return i, err
	}
	if i.child, err = process.Call(endRequest); err != nil {
		return i, err
	}
	measured := ownAfter - own + i.child.CPU + i.after.cpu - i.before.cpu
	i.others = max(0, (machineAfter-machine-measured).Seconds()/i.seconds())
	return i, nil
}

func (i interval) renewals() float64 { return float64(i.after.renewals - i.before.renewals) }

func (i interval) seconds() float64 { return i.after.at.Sub(i.before.at).Seconds() }

func (i interval) rate() float64 { return i.renewals() / i.seconds() }

// figures returns the figures of an interval. idle is the share of a core that the
// servers need when nothing is renewed.
func (i interval) figures(idle float64) figures {
	redisCPU := (i.after.cpu - i.before.cpu).Seconds() - idle*i.seconds()
	return figures{
		Others:        i.others,
		Rate:          i.rate(),
		RedisCPU:      redisCPU * 1e6 / i.renewals(),
		ClientCPU:     i.child.CPU.Seconds() * 1e6 / i.renewals(),
		Goroutines:    i.child.Goroutines,
		RSS:           float64(i.child.RSS) / (1 << 20),
		RSSPerLease:   i.child.RSSPerLease,
		Heap:          i.child.Heap,
		Stack:         max(0, i.child.Stack),
		ClientLateP50: ms(i.child.LateP50),
		ClientLateP99: ms(i.child.LateP99),
		ScriptP50:     i.after.scripts.p50,
		ScriptP99:     i.after.scripts.p99,
		ScriptMax:     i.after.scripts.longest,
		Lost:          i.child.Lost,
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
