// The measurement of a store: uncontended locks, hand-overs and renewals. Times are in µs.

package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
	"github.com/leasewheel/leasewheel/lock"
)

const (
	acquirers    = 32 // goroutines that acquire the leases
	closeTimeout = time.Minute
)

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

// per adds the processor time since the start of the meter, divided by n, as client and server. idle is the part
// of a second that the server uses when nothing is asked of it, and is left out.
func (m meter) per(n int, idle float64, v bench.Values) error {
	own, children, err := m.used()
	v["client"] = bench.Micros(own) / float64(n)
	if busy := bench.Micros(children) - idle*bench.Micros(time.Since(m.began)); busy > 0 {
		v["server"] = busy / float64(n)
	}
	return err
}

// idle returns the part of a second that the server uses without requests.
func idle(ctx context.Context, window time.Duration) (float64, error) {
	m, err := newMeter()
	if err != nil {
		return 0, err
	}
	if err := bench.Sleep(ctx, window); err != nil {
		return 0, err
	}
	_, server, err := m.used()
	return float64(server) / float64(time.Since(m.began)), err
}

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

// pair measures a lock and an unlock, one after the other without pause, of one goroutine.
func (t terms) pair(ctx context.Context, s *server) (v bench.Values, err error) {
	client, closeClient, err := newClient(s, 30*time.Second)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeClient()) }()
	mutex := client.Mutex("bench:pair")
	once := func() error {
		held, err := mutex.TryLock(ctx)
		if err != nil {
			return err
		}
		return held.Unlock(ctx)
	}
	if _, err := bench.Repeat(t.window/10, once); err != nil { // warms up
		return nil, err
	}
	unasked, err := idle(ctx, t.window)
	if err != nil {
		return nil, err
	}
	m, err := newMeter()
	if err != nil {
		return nil, err
	}
	took, err := bench.Repeat(t.window, once)
	if err != nil {
		return nil, err
	}
	v = bench.Quantiles(took)
	return v, m.per(len(took), unasked, v)
}

// handOver measures the time from the call of Unlock to the return of the Lock of another client.
func (t terms) handOver(ctx context.Context, s *server) (v bench.Values, err error) {
	var lockers []bench.Locker
	for range 2 {
		client, closeClient, err := newClient(s, 30*time.Second)
		if err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, closeClient()) }()
		mutex := client.Mutex("bench:contended")
		lockers = append(lockers, func(ctx context.Context) (func(context.Context) error, error) {
			held, err := mutex.Lock(ctx)
			return held.Unlock, err
		})
	}
	return bench.HandOvers(ctx, lockers, 0, t.window, func(wait func() error) error { return wait() })
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

// renewals holds n leases for some periods of their renewals, after a first period.
func (t terms) renewals(ctx context.Context, s *server, n int) (v bench.Values, err error) {
	client, closeClient, err := newClient(s, t.ttl)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, closeClient()) }()
	unasked, err := idle(ctx, t.window)
	if err != nil {
		return nil, err
	}
	began := time.Now()
	if _, err := acquire(ctx, client, "bench:", n); err != nil {
		return nil, err
	}
	v = bench.Values{"acquired": float64(n) / time.Since(began).Seconds()}
	if err := bench.Sleep(ctx, t.ttl/3); err != nil {
		return nil, err
	}
	before := client.Stats().Renewal.Renewed
	m, err := newMeter()
	if err != nil {
		return nil, err
	}
	if err := bench.Sleep(ctx, time.Duration(periods(n))*t.ttl/3); err != nil {
		return nil, err
	}
	stats := client.Stats().Renewal
	count := int(stats.Renewed - before)
	if count == 0 {
		return nil, errors.New("no renewal")
	}
	v["late"] = float64(stats.Late.Quantile(0.99)) / float64(time.Millisecond)
	v["lost"] = float64(stats.Lost())
	return v, m.per(count, unasked, v)
}

// acquire takes n locks, whose names have a prefix and a number.
func acquire(ctx context.Context, client *lock.Client, prefix string, n int) ([]*lock.Held, error) {
	all := make([]*lock.Held, n)
	return all, bench.Each(ctx, 0, n, acquirers, func(ctx context.Context, i int) (err error) {
		all[i], err = client.Mutex(prefix + strconv.Itoa(i)).TryLock(ctx)
		return err
	})
}
