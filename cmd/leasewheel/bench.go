// The command bench, which measures a server.

package main

import (
	"context"
	"crypto/rand"
	"errors"
	"flag"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/lock"
)

const (
	minBenchTime = time.Second
	maxBenchers  = 10_000
)

var benchCommand = command{
	name:    "bench",
	summary: "measure locks on the user's own server",
	about: `
Measures in three parts of equal length: the time of Lock and Unlock without contention, one after another;
how many pairs per second many callers make; and how many leases this process renews, and how late. It uses keys of
its own, which begin with leasewheel-bench, and releases them. Run it where the users of the locks will
run: the round trip to the server is most of the time. It loads the server.
`,
	setup: func(f *flag.FlagSet) func([]string, streams) int {
		var o benchOptions
		o.defineJSON(f)
		f.DurationVar(&o.length, "for", 9*time.Second, "`duration` of the three parts together")
		f.IntVar(&o.callers, "callers", 64, "`number` of concurrent callers in the second part")
		f.IntVar(&o.leases, "leases", 1000, "`number` of leases in the third part")
		return o.run
	},
}

// benchOptions are the flags of bench.
type benchOptions struct {
	showOptions
	length  time.Duration
	callers int
	leases  int
}

// benchResult is the result of bench. Its JSON form is part of the interface.
type benchResult struct {
	Sequential pairsResult   `json:"sequential"`
	Concurrent pairsResult   `json:"concurrent"`
	Renewals   renewalResult `json:"renewals"`
}

// pairsResult is what was measured of pairs of Lock and Unlock.
type pairsResult struct {
	Callers   int     `json:"callers"`
	Pairs     int     `json:"pairs"`
	PerSecond float64 `json:"pairsPerSecond"`
	Lock      latency `json:"lock"`
	Unlock    latency `json:"unlock"`
}

// latency are percentiles, in microseconds.
type latency struct {
	P50 int64 `json:"p50Us"`
	P90 int64 `json:"p90Us"`
	P99 int64 `json:"p99Us"`
	Max int64 `json:"maxUs"`
}

// renewalResult is what was measured of renewals.
type renewalResult struct {
	Leases    int     `json:"leases"`
	TTL       int64   `json:"ttlMs"`
	Renewed   uint64  `json:"renewed"`
	PerSecond float64 `json:"renewalsPerSecond"`
	PerBatch  float64 `json:"leasesPerRoundTrip"`
	LateP50   int64   `json:"lateP50Us"`
	LateP99   int64   `json:"lateP99Us"`
	Lost      uint64  `json:"lost"`
}

// run runs the command.
func (o *benchOptions) run(_ []string, std streams) int {
	switch {
	case o.length < minBenchTime:
		return fail(std, usageError{fmt.Sprintf("bench: -for must be at least %v, got %v", minBenchTime, o.length)})
	case o.callers < 1 || o.callers > maxBenchers:
		return fail(std, usageError{fmt.Sprintf("bench: -callers must be 1 to %d, got %d", maxBenchers, o.callers)})
	case o.leases < 1 || o.leases > 1_000_000:
		return fail(std, usageError{fmt.Sprintf("bench: -leases must be 1 to 1000000, got %d", o.leases)})
	}
	caught := catchSignals()
	defer caught.stop()
	var result benchResult
	err := caught.during(func(ctx context.Context) (err error) {
		result, err = o.measure(ctx, std)
		return err
	})
	switch {
	case err != nil:
		return endOf(std, err)
	case o.json:
		err = printJSON(std.out, result)
	default:
		result.print(std)
	}
	if err != nil {
		return fail(std, err)
	}
	return 0
}

// measure runs the three parts.
func (o *benchOptions) measure(ctx context.Context, std streams) (result benchResult, err error) {
	part := o.length / 3
	ttl := max(part/2, 300*time.Millisecond) // so that each lease is renewed several times
	client, err := o.client(ctx, std, lock.Options{Terms: lock.Terms{TTL: defaultTTL}})
	if err != nil {
		return result, err
	}
	defer func() { err = errors.Join(err, client.shut()) }()
	prefix := "leasewheel-bench:" + rand.Text() + ":"
	if result.Sequential, err = measurePairs(ctx, client.Client, prefix, 1, part); err != nil {
		return result, err
	}
	if result.Concurrent, err = measurePairs(ctx, client.Client, prefix, o.callers, part); err != nil {
		return result, err
	}
	result.Renewals, err = measureRenewals(ctx, client.With(lock.Terms{TTL: ttl}), prefix, o.leases, ttl, part)
	return result, err
}

// measurePairs locks and unlocks with that many callers, each with a key of its own.
func measurePairs(ctx context.Context, c *lock.Client, prefix string, callers int, length time.Duration) (pairsResult, error) {
	type times struct{ lock, unlock []time.Duration }
	all, errs := make([]times, callers), make([]error, callers)
	began := time.Now()
	var work sync.WaitGroup
	for i := range callers {
		work.Go(func() {
			m := c.Mutex(fmt.Sprint(prefix, i))
			for time.Since(began) < length {
				start := time.Now()
				held, err := m.Lock(ctx)
				if err != nil {
					errs[i] = err
					return
				}
				middle := time.Now()
				if err := held.Unlock(ctx); err != nil {
					errs[i] = err
					return
				}
				all[i].lock = append(all[i].lock, middle.Sub(start))
				all[i].unlock = append(all[i].unlock, time.Since(middle))
			}
		})
	}
	work.Wait()
	took := time.Since(began)
	var merged times
	for _, t := range all {
		merged.lock, merged.unlock = append(merged.lock, t.lock...), append(merged.unlock, t.unlock...)
	}
	for _, err := range errs {
		if err != nil {
			return pairsResult{}, err
		}
	}
	n := len(merged.lock)
	return pairsResult{callers, n, float64(n) / took.Seconds(), latencyOf(merged.lock), latencyOf(merged.unlock)}, nil
}

// latencyOf returns the percentiles of at least one duration. It sorts them.
func latencyOf(all []time.Duration) latency {
	slices.Sort(all)
	at := func(q float64) int64 { return all[int(q*float64(len(all)-1))].Microseconds() }
	return latency{at(0.5), at(0.9), at(0.99), at(1)}
}

// measureRenewals holds locks and counts their renewals.
func measureRenewals(ctx context.Context, c *lock.Client, prefix string, leases int, ttl, length time.Duration) (renewalResult, error) {
	const concurrent = 64
	held, errs := make([]*lock.Held, leases), make([]error, concurrent)
	var work sync.WaitGroup
	for w := range concurrent {
		work.Go(func() {
			for i := w; i < leases && errs[w] == nil; i += concurrent {
				held[i], errs[w] = c.Mutex(fmt.Sprint(prefix, "held:", i)).Lock(ctx)
			}
		})
	}
	work.Wait()
	if err := errors.Join(errs...); err != nil {
		return renewalResult{}, err
	}
	before, began := c.Stats().Renewal, time.Now()
	if err := sleep(length)(ctx); err != nil {
		return renewalResult{}, err
	}
	after, took := c.Stats().Renewal, time.Since(began)
	for w := range concurrent {
		work.Go(func() {
			for i := w; i < leases; i += concurrent {
				_ = held[i].Unlock(ctx) // a lost one is counted
			}
		})
	}
	work.Wait()
	late, renewed := after.Late.Since(before.Late), after.Renewed-before.Renewed
	return renewalResult{
		Leases: leases, TTL: ttl.Milliseconds(), Renewed: renewed,
		PerSecond: float64(renewed) / took.Seconds(),
		PerBatch:  float64(renewed) / max(float64(after.Batches-before.Batches), 1),
		LateP50:   late.Quantile(0.5).Microseconds(), LateP99: late.Quantile(0.99).Microseconds(),
		Lost: after.Lost() - before.Lost(),
	}, nil
}

// print prints the result for people.
func (r *benchResult) print(std streams) {
	for _, p := range []pairsResult{r.Sequential, r.Concurrent} {
		fmt.Fprintf(std.out, "%d callers: %.0f pairs of Lock and Unlock per second\n", p.Callers, p.PerSecond)
		fmt.Fprintf(std.out, "  Lock    %v\n  Unlock  %v\n", p.Lock, p.Unlock)
	}
	n := r.Renewals
	fmt.Fprintf(std.out, "%d leases of %v: %.0f renewals per second, %.0f in a round trip, late by %v (median), %v (99 %%), %d lost\n",
		n.Leases, time.Duration(n.TTL)*time.Millisecond, n.PerSecond, n.PerBatch, micros(n.LateP50), micros(n.LateP99), n.Lost)
}

func (l latency) String() string {
	return fmt.Sprintf("median %v, 90 %% %v, 99 %% %v, max %v", micros(l.P50), micros(l.P90), micros(l.P99), micros(l.Max))
}

func micros(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
