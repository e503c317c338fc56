// Measurements of locks that several programs make: hand-overs, many acquisitions, statistics of a server.

package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/internal/testredis"
)

// HoldTime is how long a client holds the contended lock of HandOvers.
const HoldTime = 2 * time.Millisecond

// ErrNoHandOver means that one client always had the lock, or that none had it.
var ErrNoHandOver = errors.New("no hand-over between two clients")

// Locker waits for a lock and returns the function that releases it.
type Locker func(ctx context.Context) (unlock func(ctx context.Context) error, err error)

// turns records the turns of the clients that contend for one lock.
type turns struct {
	mu        sync.Mutex // guards all fields below
	holder    int
	unlocking time.Time
	counts    []float64 // by client
	took      []float64 // µs from the call of unlock to the return of another client's Locker
}

// HandOvers lets the clients contend for one lock. It measures for the given time, after all clients have started to
// contend and before any of them stops. measured calls the function that it gets, which returns at the end of that
// time. The figures are the quantiles of the hand-overs, their number and Jain's index of fairness.
func HandOvers(ctx context.Context, clients []Locker, warmUp, window time.Duration, measured func(wait func() error) error) (Values, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	t := &turns{counts: make([]float64, len(clients))}
	var wg sync.WaitGroup
	for i, c := range clients {
		wg.Go(func() {
			if err := t.run(ctx, c, i); ctx.Err() == nil {
				cancel(err)
			}
		})
	}
	err := Sleep(ctx, warmUp)
	if err == nil {
		err = measured(func() error {
			t.reset()
			return Sleep(ctx, window)
		})
	}
	counts, took := t.reset()
	cancel(context.Canceled)
	wg.Wait()
	if err != nil {
		return nil, err
	}
	if len(took) == 0 {
		return nil, ErrNoHandOver
	}
	v := Quantiles(took)
	v["turns"], v["jain"] = Jain(counts)
	return v, nil
}

// run locks and unlocks with one client until a call fails or ctx ends.
func (t *turns) run(ctx context.Context, c Locker, i int) error {
	for {
		unlock, err := c(ctx)
		now := time.Now()
		if err != nil {
			return err
		}
		t.mu.Lock()
		t.counts[i]++
		if i != t.holder && !t.unlocking.IsZero() {
			t.took = append(t.took, Micros(now.Sub(t.unlocking)))
		}
		t.mu.Unlock()
		time.Sleep(HoldTime)
		t.mu.Lock()
		t.holder, t.unlocking = i, time.Now()
		t.mu.Unlock()
		if err := unlock(context.WithoutCancel(ctx)); err != nil {
			return err
		}
	}
}

// reset returns the records and starts new ones.
func (t *turns) reset() (counts, took []float64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	counts, took = t.counts, t.took
	t.counts, t.took = make([]float64, len(counts)), make([]float64, 0, 1<<16)
	return counts, took
}

// Jain returns the sum of the turns, and Jain's index of fairness: the square of the sum, divided by n times the sum of
// the squares.
func Jain(turns []float64) (sum, index float64) {
	squares := 0.0
	for _, n := range turns {
		sum += n
		squares += n * n
	}
	return sum, sum * sum / (float64(len(turns)) * squares)
}

// Quantiles returns the median and the 99th percentile of figures, as p50 and p99.
func Quantiles(all []float64) Values {
	if len(all) == 0 {
		return Values{}
	}
	slices.Sort(all)
	return Values{"p50": all[len(all)/2], "p99": all[len(all)*99/100]}
}

// Repeat calls f for the given time, and at least once. It returns the time of each call in µs.
func Repeat(window time.Duration, f func() error) ([]float64, error) {
	var took []float64
	for now, end := time.Now(), time.Now().Add(window); len(took) == 0 || now.Before(end); {
		if err := f(); err != nil {
			return took, err
		}
		after := time.Now()
		took = append(took, Micros(after.Sub(now)))
		now = after
	}
	return took, nil
}

// Micros returns a time in µs.
func Micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

// Each calls f with the numbers of [from, to) on several goroutines. It ends at the first error.
func Each(ctx context.Context, from, to, goroutines int, f func(ctx context.Context, i int) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var wg sync.WaitGroup
	for first := range goroutines {
		wg.Go(func() {
			for i := from + first; i < to && ctx.Err() == nil; i += goroutines {
				if err := f(ctx, i); err != nil {
					cancel(fmt.Errorf("%d of %d: %w", i, to, err))
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// Info returns what a Redis server reports in sections of INFO.
func Info(ctx context.Context, rdb *redis.Client, sections ...string) (map[string]string, error) {
	text, err := rdb.Info(ctx, sections...).Result()
	all := map[string]string{}
	for line := range strings.Lines(text) {
		if name, value, ok := strings.Cut(strings.TrimSpace(line), ":"); ok {
			all[name] = value
		}
	}
	return all, err
}

// InfoCPU returns the processor time in INFO cpu, in seconds.
func InfoCPU(info map[string]string) float64 {
	return Float(info["used_cpu_sys"]) + Float(info["used_cpu_user"])
}

// InfoField returns the number with a name in a list such as a=1,b=2, or 0.
func InfoField(fields, name string) float64 {
	for item := range strings.SplitSeq(fields, ",") {
		if value, ok := strings.CutPrefix(item, name+"="); ok {
			return Float(value)
		}
	}
	return 0
}

// Float returns the number in a text, or 0.
func Float(s string) float64 {
	f, _ := strconv.ParseFloat(s, 64)
	return f
}

// RedisVersion returns the version of the redis-server in PATH.
func RedisVersion() (string, error) {
	server, err := testredis.Launch()
	if err != nil {
		return "", err
	}
	defer server.Close()
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	defer func() { _ = rdb.Close() }()
	info, err := Info(context.Background(), rdb, "server")
	return info["redis_version"], err
}
