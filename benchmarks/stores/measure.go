// The measurement of a store: uncontended locks, hand-overs and renewals.

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
	"github.com/leasewheel/leasewheel/lock"
)

const (
	holdTime     = 2 * time.Millisecond // of the contended lock
	acquirers    = 32                   // goroutines that acquire the leases
	closeTimeout = time.Minute
)

// figures are those of one store. Times are in µs.
type figures struct {
	Server   string // name and version
	Durable  string // whether a change is on disk when it is answered
	Pair     pair
	HandOver handOver
	Renewals map[int]renewals // by number of leases
	Loads    []load           `json:",omitempty"`
}

// pair is the cost of a lock and an unlock, one after the other without pause.
type pair struct {
	P50, P99  float64
	ClientCPU float64
	ServerCPU float64
}

// handOver is the time from the call of Unlock to the return of the Lock of another client.
type handOver struct {
	P50, P99 float64
	Turns    int // that were measured
}

// renewals is the cost of the renewals of many leases.
type renewals struct {
	AcquiredPerSecond float64
	ClientCPU         float64 // per renewal
	ServerCPU         float64
	LateP99           float64 // ms by which renewals were sent after they were due
	Lost              int
}

// meter measures the processor time of this process and of its children, which are the server.
type meter struct {
	own, server time.Duration
	began       time.Time
}

func newMeter() (m meter, err error) {
	m.began = time.Now()
	m.server = bench.ChildrenCPU()
	m.own, err = bench.ProcessCPU()
	return m, err
}

// used returns the processor time since the start of the meter.
func (m meter) used() (client, server time.Duration, err error) {
	server = bench.ChildrenCPU() - m.server
	own, err := bench.ProcessCPU()
	return own - m.own, server, err
}

// per returns the processor time in µs since the start of the meter, divided by n. idle is the part
// of a second that the server uses when nothing is asked of it, and is left out.
func (m meter) per(n int, idle float64) (client, server float64, err error) {
	own, children, err := m.used()
	busy := us(children) - idle*us(time.Since(m.began))
	return us(own) / float64(n), max(0, busy) / float64(n), err
}

// idle returns the part of a second that the server uses without requests.
func idle(ctx context.Context, window time.Duration) (float64, error) {
	m, err := newMeter()
	if err != nil {
		return 0, err
	}
	if err := sleep(ctx, window); err != nil {
		return 0, err
	}
	_, server, err := m.used()
	return float64(server) / float64(time.Since(m.began)), err
}

func us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// newClient returns a client with a store of its own, like that of another process, and the
// function that closes both.
func newClient(s *server, ttl time.Duration) (*lock.Client, func() error, error) {
	return newClientAt(s, s.addr, ttl, nil)
}

// newClientAt is newClient by way of an address of the server, with hooks.
func newClientAt(s *server, addr string, ttl time.Duration, hooks *lock.Hooks) (*lock.Client, func() error, error) {
	store, disconnect, err := s.connect(addr)
	if err != nil {
		return nil, nil, err
	}
	client, err := lock.New(store, &lock.Options{
		Terms: lock.Terms{TTL: ttl}, Hooks: hooks, MaxWaiters: 2 * slices.Max(loadNumbers), Logger: slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		disconnect()
		return nil, nil, err
	}
	return client, func() error {
		ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
		defer cancel()
		defer disconnect()
		return client.Close(ctx)
	}, nil
}

// measurePair locks and unlocks one lock with one goroutine.
func measurePair(ctx context.Context, s *server, window time.Duration) (p pair, err error) {
	client, closeClient, err := newClient(s, 30*time.Second)
	if err != nil {
		return p, err
	}
	defer func() { err = errors.Join(err, closeClient()) }()
	if _, err := pairsFor(ctx, client, window/5); err != nil { // warms up
		return p, err
	}
	m, err := newMeter()
	if err != nil {
		return p, err
	}
	took, err := pairsFor(ctx, client, window)
	if err != nil {
		return p, err
	}
	p.ClientCPU, p.ServerCPU, err = m.per(len(took), 0)
	p.P50, p.P99 = quantiles(took)
	return p, err
}

func pairsFor(ctx context.Context, client *lock.Client, window time.Duration) ([]time.Duration, error) {
	mutex := client.Mutex("bench:pair")
	var took []time.Duration
	for began := time.Now(); len(took) == 0 || time.Since(began) < window; {
		start := time.Now()
		held, err := mutex.TryLock(ctx)
		if err != nil {
			return nil, err
		}
		if err := held.Unlock(ctx); err != nil {
			return nil, err
		}
		took = append(took, time.Since(start))
	}
	return took, nil
}

// quantiles returns the median and the 99th percentile in µs.
func quantiles(took []time.Duration) (p50, p99 float64) {
	if len(took) == 0 {
		return 0, 0
	}
	slices.Sort(took)
	return us(took[len(took)/2]), us(took[len(took)*99/100])
}

// contention records the hand-overs between two clients.
type contention struct {
	mu        sync.Mutex // guards all fields below
	holder    int
	unlocking time.Time
	took      []time.Duration
}

func (c *contention) locked(client int, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if client != c.holder && !c.unlocking.IsZero() {
		c.took = append(c.took, at.Sub(c.unlocking))
	}
}

func (c *contention) unlocks(client int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holder, c.unlocking = client, time.Now()
}

// measureHandOver lets two clients contend for a lock.
func measureHandOver(ctx context.Context, s *server, window time.Duration) (h handOver, err error) {
	ctx, cancel := context.WithTimeout(ctx, window)
	defer cancel()
	c := &contention{holder: -1}
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for i := range errs {
		client, closeClient, err := newClient(s, 30*time.Second)
		if err != nil {
			cancel()
			wg.Wait()
			return h, err
		}
		wg.Go(func() {
			errs[i] = contend(ctx, client.Mutex("bench:contended"), i, c)
			errs[i] = errors.Join(errs[i], closeClient())
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return h, err
	}
	h.P50, h.P99 = quantiles(c.took)
	h.Turns = len(c.took)
	if h.Turns == 0 {
		return h, fmt.Errorf("no hand-over within %v", window)
	}
	return h, nil
}

// contend locks and unlocks until ctx ends.
func contend(ctx context.Context, m *lock.Mutex, i int, c *contention) error {
	for ctx.Err() == nil {
		held, err := m.Lock(ctx)
		now := time.Now()
		if ctx.Err() != nil {
			if err == nil {
				return held.Unlock(context.WithoutCancel(ctx))
			}
			return nil
		}
		if err != nil {
			return err
		}
		c.locked(i, now)
		time.Sleep(holdTime)
		c.unlocks(i)
		if err := held.Unlock(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
	return nil
}

// manyLeases is the number of leases whose renewals need two periods to be measured. Fewer leases are
// held for longer, because the processor time of a server is counted in ticks of 10 ms.
const manyLeases = 10_000

// periods returns for how many periods of its renewals a lease is held, of n leases.
func periods(n int) int {
	if n < manyLeases {
		return 6
	}
	return 2
}

// measureRenewals holds n leases for some periods of their renewals, after a first period.
func measureRenewals(ctx context.Context, s *server, n int, c config) (r renewals, err error) {
	client, closeClient, err := newClient(s, c.ttl)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, closeClient()) }()
	unasked, err := idle(ctx, c.window)
	if err != nil {
		return r, err
	}
	began := time.Now()
	if _, err := acquire(ctx, client, "bench:", n); err != nil {
		return r, err
	}
	r.AcquiredPerSecond = float64(n) / time.Since(began).Seconds()
	if err := sleep(ctx, c.ttl/3); err != nil {
		return r, err
	}
	before := client.Stats().Renewal.Renewed
	m, err := newMeter()
	if err != nil {
		return r, err
	}
	if err := sleep(ctx, time.Duration(periods(n))*c.ttl/3); err != nil {
		return r, err
	}
	stats := client.Stats().Renewal
	count := int(stats.Renewed - before)
	if count == 0 {
		return r, errors.New("no renewal")
	}
	r.ClientCPU, r.ServerCPU, err = m.per(count, unasked)
	r.LateP99 = us(stats.Late.Quantile(0.99)) / 1000
	r.Lost = int(stats.Lost())
	return r, err
}

// acquire takes n locks, whose names have a prefix and a number.
func acquire(ctx context.Context, client *lock.Client, prefix string, n int) ([]*lock.Held, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	next := make(chan int)
	all := make([]*lock.Held, n)
	var wg sync.WaitGroup
	for range min(acquirers, n) {
		wg.Go(func() {
			for i := range next {
				var err error
				if all[i], err = client.Mutex(prefix + strconv.Itoa(i)).TryLock(ctx); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	for i := range n {
		select {
		case next <- i:
			continue
		case <-ctx.Done():
		}
		break
	}
	close(next)
	wg.Wait()
	return all, context.Cause(ctx)
}

// sleep returns after d, or with the cause when ctx ends.
func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}
