package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

// plan is what is measured, and for how long.
type plan struct {
	leases   int
	ttl      time.Duration
	settle   time.Duration // between acquiring and measuring
	window   time.Duration // measured
	flatOut  time.Duration // measured of renewing as fast as possible
	outage   time.Duration // measured with one master hanging, and with it dead
	profiles string        // folder for CPU profiles; "" is none
}

// lineUp is a contestant on a single server, or on a cluster.
type lineUp struct {
	contestant
	clustered bool
}

// measure measures a contestant. idle is what idle returned.
func (p plan) measure(ctx context.Context, l lineUp, idle float64) (figures, error) {
	f, err := p.hold(ctx, l, idle)
	if err != nil {
		return f, err
	}
	f.Saturated, err = p.saturate(ctx, l)
	return f, err
}

// hold measures the time in which a contestant keeps its locks.
func (p plan) hold(ctx context.Context, l lineUp, idle float64) (figures, error) {
	s, err := open(ctx, l.clustered)
	if err != nil {
		return figures{}, err
	}
	defer s.close()
	o := order{Contestant: l.name, Addrs: s.addrs(), Leases: p.leases, TTL: p.ttl, Profile: p.profiles}
	began := time.Now()
	kid, err := bench.Start[answer](o)
	if err != nil {
		return figures{}, err
	}
	defer kid.Stop()
	acquired := time.Since(began)

	crowd, err := newCrowd(ctx, s, l.key, o)
	if err != nil {
		return figures{}, err
	}
	if err := crowd.watch(ctx, p.settle); err != nil {
		return figures{}, err
	}
	crowd.begin()
	r, err := s.during(ctx, kid, func() error { return crowd.watch(ctx, p.window) })
	if err != nil {
		return figures{}, err
	}
	f := r.figures(idle * float64(len(s.nodes)))
	f.At = time.Now().UTC().Truncate(time.Second)
	f.AcquireSeconds = acquired.Seconds()
	seen := crowd.seen()
	f.LateP50, f.LateP99 = ms(seen.quantile(0.5)), ms(seen.quantile(0.99))
	f.LeastPTTL = ms(seen.least)
	if f.Missing, err = crowd.missing(ctx); err != nil {
		return figures{}, err
	}
	if l.clustered {
		f.Outage, err = p.breakOne(ctx, s, crowd)
	}
	return f, err
}

// saturate measures how many renewals per second a contestant makes at most.
func (p plan) saturate(ctx context.Context, l lineUp) (float64, error) {
	s, err := open(ctx, l.clustered)
	if err != nil {
		return 0, err
	}
	defer s.close()
	o := order{Contestant: l.name, Addrs: s.addrs(), Leases: p.leases, TTL: p.ttl, FlatOut: true}
	if l.flatOut > 0 {
		o.Leases = min(p.leases, l.flatOut)
	}
	kid, err := bench.Start[answer](o)
	if err != nil {
		return 0, err
	}
	defer kid.Stop()
	if err := sleep(ctx, p.flatOut/4); err != nil {
		return 0, err
	}
	r, err := s.during(ctx, kid, func() error { return sleep(ctx, p.flatOut) })
	if err != nil {
		return 0, err
	}
	if r.child.Lost > 0 {
		return 0, fmt.Errorf("flat out, %d of %d locks were lost", r.child.Lost, o.Leases)
	}
	return r.rate(), nil
}

// idle measures the share of a core that a server takes which holds as many keys
// and is watched in the same way, but has nothing to renew.
func (p plan) idle(ctx context.Context) (float64, error) {
	s, err := open(ctx, false)
	if err != nil {
		return 0, err
	}
	defer s.close()
	crowd, err := newCrowd(ctx, s, lockName, order{Leases: p.leases, TTL: p.ttl})
	if err != nil {
		return 0, err
	}
	const value = "as long as a random owner and its token are"
	_, err = s.nodes[0].rdb.Pipelined(ctx, func(pipe redis.Pipeliner) error {
		for i := range p.leases {
			pipe.Set(ctx, lockName(i), value, time.Hour)
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	before, err := s.read(ctx)
	if err != nil {
		return 0, err
	}
	if err := crowd.watch(ctx, p.window/4); err != nil {
		return 0, err
	}
	after, err := s.read(ctx)
	return (after.cpu - before.cpu).Seconds() / after.at.Sub(before.at).Seconds(), err
}

// readings are what was measured of a child and its servers.
type readings struct {
	before, after reading
	child         answer
	others        float64 // share of a core that all else took
}

// during measures a child and its servers while f runs.
func (s *site) during(ctx context.Context, kid *bench.Process[answer], f func() error) (r readings, err error) {
	if err := s.reset(ctx); err != nil {
		return r, err
	}
	if _, err := kid.Say(begin); err != nil {
		return r, err
	}
	machine, own, err := bench.MachineCPU()
	if err != nil {
		return r, err
	}
	if r.before, err = s.read(ctx); err != nil {
		return r, err
	}
	if err := f(); err != nil {
		return r, err
	}
	if r.after, err = s.read(ctx); err != nil {
		return r, err
	}
	machineAfter, ownAfter, err := bench.MachineCPU()
	if err != nil {
		return r, err
	}
	if r.child, err = kid.Say(end); err != nil {
		return r, err
	}
	ours := ownAfter - own + r.child.CPU + r.after.cpu - r.before.cpu
	r.others = max(0, (machineAfter-machine-ours).Seconds()/r.seconds())
	return r, nil
}

func (r readings) renewals() float64 { return float64(r.after.renewals - r.before.renewals) }

func (r readings) seconds() float64 { return r.after.at.Sub(r.before.at).Seconds() }

func (r readings) rate() float64 { return r.renewals() / r.seconds() }

// figures returns what the readings say, less what the servers take idle.
func (r readings) figures(idle float64) figures {
	redisCPU := (r.after.cpu - r.before.cpu).Seconds() - idle*r.seconds()
	return figures{
		Others:     r.others,
		Rate:       r.rate(),
		RedisCPU:   redisCPU * 1e6 / r.renewals(),
		ClientCPU:  r.child.CPU.Seconds() * 1e6 / r.renewals(),
		Goroutines: r.child.Goroutines,
		RSS:        float64(r.child.RSS) / (1 << 20),
		Heap:       r.child.Heap,
		Stack:      max(0, r.child.Stack),
		OwnLateP50: ms(r.child.LateP50),
		OwnLateP99: ms(r.child.LateP99),
		ScriptP50:  r.after.scripts.p50,
		ScriptP99:  r.after.scripts.p99,
		ScriptMax:  r.after.scripts.most,
		Lost:       r.child.Lost,
	}
}

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
