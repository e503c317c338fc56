// The measurements. A child runs one task on a server of its own.

package main

import (
	"context"
	"errors"
	"io"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
	"github.com/leasewheel/leasewheel/internal/testredis"
)

// memberCounts are the numbers of members of the measured batches.
var memberCounts = []int{1, 10, 100, 1000, 10_000}

// task is the work of a child. The child connects when it gets the task, and
// measures when it gets the first request.
type task struct {
	Work       string
	Candidate  string
	Addr       string
	Goroutines int // that lock; in a hand-over each has a client of its own
	Window     time.Duration
}

// measure runs a task in a process of its own on a server of its own.
func measure(t task) (bench.Values, error) {
	server, err := testredis.Launch()
	if err != nil {
		return nil, err
	}
	defer server.Close()
	t.Addr = server.Addr()
	process, err := bench.Start(t)
	if err != nil {
		return nil, err
	}
	defer process.Kill()
	return process.Call("begin")
}

// child serves the requests of the parent.
func child(in io.Reader, out io.Writer) error {
	logging.Disable() // go-redis prints each failed dial
	return bench.Serve(in, out, func(t task) (func(string) (bench.Values, error), error) {
		clients, err := connect(t)
		return func(string) (bench.Values, error) { return t.run(context.Background(), clients) }, err
	})
}

// connect creates the clients of a task.
func connect(t task) ([]client, error) {
	c, err := findCandidate(t.Candidate)
	if err != nil {
		return nil, err
	}
	clients := make([]client, 1)
	if t.Work == workHandOver {
		clients = make([]client, t.Goroutines)
	}
	for i := range clients {
		if clients[i], err = c.open(t.Addr); err != nil {
			return nil, err
		}
	}
	return clients, nil
}

func (t task) run(ctx context.Context, clients []client) (bench.Values, error) {
	switch t.Work {
	case workHandOver:
		return t.handOvers(ctx, clients)
	case workBatches:
		return t.batches(ctx, clients[0])
	default:
		return t.uncontended(ctx, clients[0])
	}
}

// uncontended measures goroutines that each lock and unlock a lock of their own without pause. The figures are the
// times of a pair of lock and unlock in µs.
func (t task) uncontended(ctx context.Context, c client) (bench.Values, error) {
	if _, err := t.lockFor(ctx, c, t.Window/10); err != nil { // warms up
		return nil, err
	}
	var took []float64
	used, err := t.metered(ctx, func() (err error) {
		took, err = t.lockFor(ctx, c, t.Window)
		return err
	})
	if err != nil {
		return nil, err
	}
	v := bench.Quantiles(took)
	used.per(float64(len(took)), v)
	return v, nil
}

// lockFor locks and unlocks with all goroutines for the given time. It returns the
// time of each pair.
func (t task) lockFor(ctx context.Context, c client, window time.Duration) ([]float64, error) {
	lists, errs := make([][]float64, t.Goroutines), make([]error, t.Goroutines)
	var wg sync.WaitGroup
	for g := range lists {
		wg.Go(func() {
			key := "bench:" + strconv.Itoa(g)
			lists[g], errs[g] = bench.Repeat(window, func() error {
				unlock, err := c.tryLock(ctx, key)
				if err != nil {
					return err
				}
				return unlock(ctx)
			})
		})
	}
	wg.Wait()
	return slices.Concat(lists...), errors.Join(errs...)
}

// handOvers measures clients that contend for one lock, and PINGs before and after.
func (t task) handOvers(ctx context.Context, clients []client) (bench.Values, error) {
	before, err := pings(ctx, t.Addr)
	if err != nil {
		return nil, err
	}
	var lockers []bench.Locker
	for _, c := range clients {
		lockers = append(lockers, func(ctx context.Context) (func(context.Context) error, error) {
			unlock, err := c.lock(ctx, "bench")
			return unlock, err
		})
	}
	var used usage
	v, err := bench.HandOvers(ctx, lockers, t.Window/5, t.Window, func(wait func() error) (err error) {
		used, err = t.metered(ctx, wait)
		return err
	})
	if err != nil {
		return nil, err
	}
	used.per(v["turns"], v)
	after, err := pings(ctx, t.Addr)
	v["ping"] = bench.Quantiles(slices.Concat(before, after))["p50"]
	return v, err
}

// pings returns the round trip times of PINGs that are as far apart as hand-overs.
func pings(ctx context.Context, addr string) ([]float64, error) {
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer func() { _ = rdb.Close() }()
	conn := rdb.Conn()
	defer func() { _ = conn.Close() }()
	took := make([]float64, 200)
	for i := range took {
		time.Sleep(bench.HoldTime)
		began := time.Now()
		if err := conn.Ping(ctx).Err(); err != nil {
			return nil, err
		}
		took[i] = bench.Micros(time.Since(began))
	}
	return took[1:], nil // the first one includes the dial
}

// batches measures the median times in ms to lock and unlock several locks as one, by the number of members.
func (t task) batches(ctx context.Context, c client) (bench.Values, error) {
	locker, ok := c.(batchLocker)
	if !ok {
		return nil, errors.New(t.Candidate + " cannot lock several locks as one")
	}
	times := bench.Values{}
	for _, n := range slices.Concat([]int{100}, memberCounts) { // the first one warms up
		members := make([]string, n)
		for i := range members {
			members[i] = "m" + strconv.Itoa(i)
		}
		took, err := bench.Repeat(t.Window, func() error { return locker.lockAndUnlockAll(ctx, members) })
		if err != nil {
			return nil, err
		}
		times[strconv.Itoa(n)] = bench.Quantiles(took)["p50"] / 1000
	}
	return times, nil
}

// usage is what this process and the server used: seconds of processor time, and commands.
type usage bench.Values

// per adds the rate of n operations and the usage of each, in µs, to the figures.
func (u usage) per(n float64, v bench.Values) {
	v["rate"] = n / u["seconds"]
	v["redis"], v["client"] = u["redis"]*1e6/n, u["own"]*1e6/n
	v["commands"] = u["commands"] / n
}

// metered runs f and returns the resources that it used.
func (t task) metered(ctx context.Context, f func() error) (used usage, err error) {
	rdb := redis.NewClient(&redis.Options{Addr: t.Addr})
	defer func() { _ = rdb.Close() }()
	began := time.Now()
	before, err := t.readUsage(ctx, rdb)
	if err != nil {
		return nil, err
	}
	if err := f(); err != nil {
		return nil, err
	}
	used, err = t.readUsage(ctx, rdb)
	for name := range maps.Keys(used) {
		used[name] -= before[name]
	}
	used["seconds"] = time.Since(began).Seconds()
	return used, err
}

// readUsage returns the usage until now. It counts the scripts, and the SETs of a candidate that sends them as commands
// of their own.
func (t task) readUsage(ctx context.Context, rdb *redis.Client) (usage, error) {
	info, err := bench.Info(ctx, rdb, "cpu", "commandstats")
	if err != nil {
		return nil, err
	}
	c, err := findCandidate(t.Candidate)
	if err != nil {
		return nil, err
	}
	u := usage{"redis": bench.InfoCPU(info)}
	for _, command := range []string{"eval", "evalsha", "set"} {
		if command != "set" || c.usesSet {
			u["commands"] += bench.InfoField(info["cmdstat_"+command], "calls")
		}
	}
	own, err := bench.ProcessCPU()
	u["own"] = own.Seconds()
	return u, err
}
