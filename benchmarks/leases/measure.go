// The measurement of a candidate, from its first lock to its figures.

package main

import (
	"context"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

// measure measures a candidate while it keeps its locks. CPU is in µs per renewal, lateness in ms. idle is the result of
// plan.idle.
func (p plan) measure(ctx context.Context, name string, idle float64) (bench.Values, error) {
	name, clustered := strings.CutPrefix(name, clusterPrefix)
	c, err := findCandidate(name)
	if err != nil {
		return nil, err
	}
	s, err := startServers(ctx, clustered)
	if err != nil {
		return nil, err
	}
	defer s.close()
	work := task{Candidate: c.name, Addrs: s.addrs(), Leases: p.leases, TTL: p.ttl}
	process, err := bench.Start(work)
	if err != nil {
		return nil, err
	}
	defer process.Kill()
	m, err := newMonitors(ctx, s, c.key, work)
	if err != nil {
		return nil, err
	}
	if err := m.watch(ctx, p.settle); err != nil {
		return nil, err
	}
	m.begin()
	v, err := s.measureDuring(ctx, process, idle, func() error { return m.watch(ctx, p.window) })
	if err != nil {
		return nil, err
	}
	observed := m.observed()
	v["idle"], v["late p50"], v["late p99"] = idle, ms(observed.quantile(0.5)), ms(observed.quantile(0.99))
	if v["missing"], err = m.missing(ctx); err == nil && clustered {
		err = p.failOneMaster(ctx, s, m, v)
	}
	return v, err
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
	return (after.cpu - before.cpu) / after.at.Sub(before.at).Seconds(), err
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

// measureDuring measures a child and its servers while f runs. idle is the share of a core that each server needs when
// nothing is renewed.
func (s *servers) measureDuring(ctx context.Context, process *bench.Process, idle float64, f func() error) (bench.Values, error) {
	if err := s.resetStats(ctx); err != nil {
		return nil, err
	}
	if _, err := process.Call(beginRequest); err != nil {
		return nil, err
	}
	before, err := s.readStats(ctx)
	if err != nil {
		return nil, err
	}
	if err := f(); err != nil {
		return nil, err
	}
	after, err := s.readStats(ctx)
	if err != nil {
		return nil, err
	}
	v, err := process.Call(endRequest)
	if err != nil {
		return nil, err
	}
	seconds, renewals := after.at.Sub(before.at).Seconds(), after.renewals-before.renewals
	v["rate"] = renewals / seconds
	v["redis"] = (after.cpu - before.cpu - idle*float64(len(s.nodes))*seconds) * 1e6 / renewals
	v["client"] = v["cpu"] * 1e6 / renewals
	v["client + redis"] = v["client"] + v["redis"]
	v["script p99"] = after.script
	return v, nil
}

// failOneMaster stops the last master, continues it, and then kills it. It adds how late the leases of the healthy
// masters are renewed meanwhile: while the master accepts connections and answers nothing, and after its end.
func (p plan) failOneMaster(ctx context.Context, s *servers, all monitors, v bench.Values) error {
	last := len(s.nodes) - 1
	failing, healthy := s.nodes[last].server, all[:last]
	during := func(what string) error {
		healthy.begin()
		err := healthy.watch(ctx, p.outage)
		o := healthy.observed()
		v[what+" p99"], v[what+" max"] = ms(o.quantile(0.99)), ms(o.quantile(1))
		return err
	}
	if err := failing.Stop(); err != nil {
		return err
	}
	if err := during("hanging"); err != nil {
		return err
	}
	if err := failing.Cont(); err != nil {
		return err
	}
	if err := healthy.watch(ctx, p.outage/4); err != nil {
		return err
	}
	failing.Kill()
	if err := during("dead"); err != nil {
		return err
	}
	missing, err := healthy.missing(ctx)
	v["missing"] += missing
	return err
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
