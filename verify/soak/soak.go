package soak

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/redisstore"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/wheel"
)

// plan is how a soak goes.
type plan struct {
	leases int
	ttl    time.Duration
	length time.Duration
	calm   time.Duration // before the first fault
	every  time.Duration // between two
	once   bool          // each of them
	fault  time.Duration // how long one lasts that takes time
	churn  int           // leases a second that are given back and taken again
}

// hands is how many goroutines take and give back.
const hands = 16

// soak is one that is going on.
type soak struct {
	plan
	server *testredis.Server
	proxy  *testredis.Proxy
	admin  *redis.Client // past the proxy
	engine *wheel.Wheel
	client *lock.Client
	held   []*lock.Held // by hand: each has every 16th of them

	churned, failed atomic.Int64 // turns of the churn
	faults          map[string]int
	longest         time.Duration // fault
	losses          losses
}

// losses are those that holders were told of. Its method is safe for concurrent use.
type losses struct {
	mu    sync.Mutex // guards all below
	count int
	first string
}

func (l *losses) add(info renewal.LostInfo) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	if l.first == "" {
		l.first = fmt.Sprintf("%v: %v", info.Lease, info.Err)
	}
}

// prepare starts a server. Before it answers it hands what it has done to the
// operating system, so nothing is lost when it is killed.
func (p plan) prepare(t testing.TB) *soak {
	s := &soak{plan: p, faults: map[string]int{}}
	s.server = testredis.Start(t, "--appendonly", "yes", "--appendfsync", "no")
	s.proxy = testredis.StartProxy(t, s.server)
	s.admin = s.server.Client(t)
	return s
}

// begin makes the client. Its engine is as it would make one itself, but shows how many
// timers there are.
func (s *soak) begin(t testing.TB) error {
	var err error
	if s.engine, err = wheel.New(&wheel.Options{Tick: s.ttl / 3000}); err != nil {
		return err
	}
	store, err := redisstore.New(s.proxy.Client(t), nil)
	if err != nil {
		return err
	}
	s.held = make([]*lock.Held, s.leases)
	s.client, err = lock.New(store, &lock.Options{
		Terms:     lock.Terms{TTL: s.ttl},
		Scheduler: s.engine,
		Renewal:   renewal.Options{Hooks: &renewal.Hooks{Lost: s.losses.add}},
	})
	return err
}

// key names the lock of a lease.
func key(i int) string { return fmt.Sprint("lease ", i) }

// each calls f for all leases, those of a hand one after another.
func (s *soak) each(f func(i int)) {
	var work sync.WaitGroup
	for hand := range hands {
		work.Go(func() {
			for i := hand; i < s.leases; i += hands {
				f(i)
			}
		})
	}
	work.Wait()
}

// take gets a lease, if its lock is free. It may not be for a while when Unlock got
// no answer.
func (s *soak) take(ctx context.Context, i int) {
	held, err := s.client.Mutex(key(i)).TryLock(ctx)
	if err != nil {
		s.failed.Add(1)
		return
	}
	s.held[i] = held
}

// giveBack gives a lease back, if it is held.
func (s *soak) giveBack(ctx context.Context, i int) {
	held := s.held[i]
	if held == nil {
		return
	}
	s.held[i] = nil
	if err := held.Unlock(ctx); err != nil {
		s.failed.Add(1)
	}
}

// turnOver gives leases back and takes them again until ctx ends, as many a second as
// planned.
func (s *soak) turnOver(ctx context.Context) {
	var work sync.WaitGroup
	for hand := range hands {
		work.Go(func() {
			tick := time.NewTicker(hands * time.Second / time.Duration(s.churn))
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				i := hand + hands*rand.N((s.leases-hand+hands-1)/hands)
				s.giveBack(ctx, i)
				s.take(ctx, i)
				s.churned.Add(1)
			}
		})
	}
	work.Wait()
}

// trouble does one fault after another for as long as planned, and each once at least.
func (s *soak) trouble() error {
	end := time.Now().Add(s.length)
	time.Sleep(s.calm)
	for round := 0; round == 0 || !s.once; round++ {
		for _, f := range s.troubles() {
			if round > 0 && time.Now().After(end) {
				return nil
			}
			began := time.Now()
			if err := f.do(); err != nil {
				return fmt.Errorf("%s: %w", f.name, err)
			}
			s.faults[f.name]++
			s.longest = max(s.longest, time.Since(began))
			time.Sleep(s.every)
		}
	}
	time.Sleep(time.Until(end))
	return nil
}
