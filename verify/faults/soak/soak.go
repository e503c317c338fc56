// A soak: its server, its client, its leases and its workers.

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
	"github.com/leasewheel/leasewheel/wheel"
)

// plan holds the parameters of a soak.
type plan struct {
	leases int
	ttl    time.Duration
	length time.Duration
	calm   time.Duration // time before the first fault
	every  time.Duration // time between two faults
	once   bool          // each fault occurs once
	fault  time.Duration // length of a fault that lasts
	churn  int           // leases released and reacquired per second
}

// workers is the number of goroutines that acquire and release.
const workers = 16

// soak is a running soak.
type soak struct {
	plan
	server *testredis.Server
	proxy  *testredis.Proxy
	admin  *redis.Client // connects without the proxy
	engine *wheel.Wheel
	client *lock.Client
	held   []*lock.Held // each worker owns every 16th element

	churned, failed atomic.Int64 // counts of the churn
	faults          map[string]int
	longest         time.Duration // longest fault
	losses          losses
}

// losses counts reported losses. It is safe for concurrent use.
type losses struct {
	mu    sync.Mutex // guards the fields below
	count int
	first string
}

func (l *losses) add(_ context.Context, info lock.HookInfo) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.count++
	if l.first == "" {
		l.first = info.Err.Error()
	}
}

// prepare starts a server. The server passes its writes to the operating system before it
// answers, so it loses nothing when it is killed.
func (p plan) prepare(t testing.TB) *soak {
	s := &soak{plan: p, faults: map[string]int{}}
	s.server = testredis.Start(t, "--appendonly", "yes", "--appendfsync", "no")
	s.proxy = testredis.StartProxy(t, s.server)
	s.admin = s.server.Client(t)
	return s
}

// begin creates the client. Its engine has the default tick; the soak creates it to read
// its statistics.
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
		Hooks:     &lock.Hooks{Lost: s.losses.add},
	})
	return err
}

// key returns the name of lock i.
func key(i int) string { return fmt.Sprint("lease ", i) }

// each calls f for all leases, sequentially in each worker.
func (s *soak) each(f func(i int)) {
	var work sync.WaitGroup
	for worker := range workers {
		work.Go(func() {
			for i := worker; i < s.leases; i += workers {
				f(i)
			}
		})
	}
	work.Wait()
}

// acquire acquires lease i if its lock is free. After an Unlock without an answer the lock
// may stay taken for a while.
func (s *soak) acquire(ctx context.Context, i int) {
	held, err := s.client.Mutex(key(i)).TryLock(ctx)
	if err != nil {
		s.failed.Add(1)
		return
	}
	s.held[i] = held
}

// release releases lease i if it is held.
func (s *soak) release(ctx context.Context, i int) {
	held := s.held[i]
	if held == nil {
		return
	}
	s.held[i] = nil
	if err := held.Unlock(ctx); err != nil {
		s.failed.Add(1)
	}
}

// runChurn releases and reacquires leases at the planned rate until ctx ends.
func (s *soak) runChurn(ctx context.Context) {
	var work sync.WaitGroup
	for worker := range workers {
		work.Go(func() {
			tick := time.NewTicker(workers * time.Second / time.Duration(s.churn))
			defer tick.Stop()
			for {
				select {
				case <-ctx.Done():
					return
				case <-tick.C:
				}
				i := worker + workers*rand.N((s.leases-worker+workers-1)/workers)
				s.release(ctx, i)
				s.acquire(ctx, i)
				s.churned.Add(1)
			}
		})
	}
	work.Wait()
}

// runFaults injects one fault after another for the planned time, and each at least once.
func (s *soak) runFaults() error {
	end := time.Now().Add(s.length)
	time.Sleep(s.calm)
	for round := 0; round == 0 || !s.once; round++ {
		for _, f := range s.nemesis() {
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
