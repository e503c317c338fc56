package main

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"
)

// pairs are what was measured of a contestant's goroutines that each lock and
// unlock a lock of their own, without pause. CPU is in µs per pair.
type pairs struct {
	Rate      float64 // per second, of all goroutines
	RedisCPU  float64
	ClientCPU float64
	P50, P99  float64 // µs of a pair
	Others    float64 // share of a core that other processes of the machine took
}

// measurePairs measures one contestant on a server of its own.
func measurePairs(o order) (pairs, error) {
	a, err := measure(o)
	if err != nil {
		return pairs{}, err
	}
	n := float64(a.Count)
	return pairs{
		Rate:     n / a.Took.Seconds(),
		RedisCPU: us(a.RedisCPU) / n, ClientCPU: us(a.CPU) / n,
		P50: us(a.P50), P99: us(a.P99), Others: a.Others,
	}, nil
}

// runPairs is what the child does.
func runPairs(ctx context.Context, c client, o order) (answer, error) {
	if _, err := lockFor(ctx, c, o, o.Window/10); err != nil { // connections, scripts, caches
		return answer{}, err
	}
	var took []time.Duration
	u, err := o.metered(ctx, func() (err error) {
		took, err = lockFor(ctx, c, o, o.Window)
		return err
	})
	if err != nil {
		return answer{}, err
	}
	slices.Sort(took)
	n := len(took)
	return answer{usage: u, Count: n, P50: took[n/2], P99: took[n*99/100]}, nil
}

// lockFor has the goroutines lock and unlock for some time, and returns how long
// each pair took.
func lockFor(ctx context.Context, c client, o order, window time.Duration) ([]time.Duration, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	until := time.Now().Add(window)
	lists := make([][]time.Duration, o.Goroutines)
	var wg sync.WaitGroup
	for g := range lists {
		wg.Go(func() {
			key := "bench:" + strconv.Itoa(g)
			list := make([]time.Duration, 0, 1<<18)
			defer func() { lists[g] = list }()
			for now := time.Now(); now.Before(until); {
				if err := pair(ctx, c, key); err != nil {
					cancel(err)
					return
				}
				after := time.Now()
				list = append(list, after.Sub(now))
				now = after
			}
		})
	}
	wg.Wait()
	return slices.Concat(lists...), context.Cause(ctx)
}

func pair(ctx context.Context, c client, key string) error {
	unlock, err := c.try(ctx, key)
	if err != nil {
		return err
	}
	return unlock(ctx)
}

func us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
