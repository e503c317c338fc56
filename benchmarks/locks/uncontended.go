// Locks without contention: the rate and the cost of pairs of lock and unlock.

package main

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"time"
)

// uncontended holds the figures of goroutines that each lock and unlock a lock of
// their own without pause. CPU is in µs per pair of lock and unlock.
type uncontended struct {
	Rate      float64 // pairs per second of all goroutines
	RedisCPU  float64
	ClientCPU float64
	P50, P99  float64 // µs of a pair
	Others    float64 // cores that other processes of the machine used
}

// measureUncontended measures a candidate on a server of its own.
func measureUncontended(t task) (uncontended, error) {
	r, err := measure(t)
	if err != nil {
		return uncontended{}, err
	}
	n := float64(r.Count)
	return uncontended{
		Rate:     n / r.Took.Seconds(),
		RedisCPU: us(r.RedisCPU) / n, ClientCPU: us(r.CPU) / n,
		P50: us(r.P50), P99: us(r.P99), Others: r.Others,
	}, nil
}

// runUncontended measures pairs of lock and unlock in the child.
func runUncontended(ctx context.Context, c client, t task) (childResult, error) {
	if _, err := lockFor(ctx, c, t, t.Window/10); err != nil { // warms up
		return childResult{}, err
	}
	var took []time.Duration
	u, err := t.metered(ctx, func() (err error) {
		took, err = lockFor(ctx, c, t, t.Window)
		return err
	})
	if err != nil {
		return childResult{}, err
	}
	slices.Sort(took)
	n := len(took)
	return childResult{usage: u, Count: n, P50: took[n/2], P99: took[n*99/100]}, nil
}

// lockFor locks and unlocks with all goroutines for the given time. It returns the
// time of each pair.
func lockFor(ctx context.Context, c client, t task, window time.Duration) ([]time.Duration, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	end := time.Now().Add(window)
	lists := make([][]time.Duration, t.Goroutines)
	var wg sync.WaitGroup
	for g := range lists {
		wg.Go(func() {
			key := "bench:" + strconv.Itoa(g)
			list := make([]time.Duration, 0, 1<<18)
			defer func() { lists[g] = list }()
			for now := time.Now(); now.Before(end); {
				if err := lockAndUnlock(ctx, c, key); err != nil {
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

func lockAndUnlock(ctx context.Context, c client, key string) error {
	unlock, err := c.tryLock(ctx, key)
	if err != nil {
		return err
	}
	return unlock(ctx)
}

func us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
