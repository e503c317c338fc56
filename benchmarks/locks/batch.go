package main

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"
)

// memberCounts are those of the batches that are measured.
var memberCounts = []int{1, 10, 100, 1000, 10_000}

// batches are the median times in ms of locking and unlocking several locks as one,
// by the number of members.
type batches map[int]float64

// measureBatches measures one way of doing that on a server of its own.
func measureBatches(o order) (batches, error) {
	a, err := measure(o)
	return a.Batches, err
}

// runBatches is what the child does.
func runBatches(ctx context.Context, c client, o order) (answer, error) {
	several, ok := c.(severalClient)
	if !ok {
		return answer{}, errors.New(o.Contestant + " cannot lock several locks as one")
	}
	times := batches{}
	for _, n := range slices.Concat([]int{100}, memberCounts) { // the first to warm up
		members := make([]string, n)
		for i := range members {
			members[i] = "m" + strconv.Itoa(i)
		}
		median, err := timeOf(o.Window, func() error { return several.lockAll(ctx, members) })
		if err != nil {
			return answer{}, err
		}
		times[n] = float64(median) / float64(time.Millisecond)
	}
	return answer{Batches: times}, nil
}

// timeOf returns the median time of f, which is called for some time and once at
// least.
func timeOf(window time.Duration, f func() error) (time.Duration, error) {
	var took []time.Duration
	for until := time.Now().Add(window); len(took) == 0 || time.Now().Before(until); {
		began := time.Now()
		if err := f(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}
