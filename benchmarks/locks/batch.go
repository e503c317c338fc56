// The time to lock and unlock several locks as one.

package main

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"time"
)

// memberCounts are the numbers of members of the measured batches.
var memberCounts = []int{1, 10, 100, 1000, 10_000}

// batches are the median times in ms to lock and unlock several locks as one, by the
// number of members.
type batches map[int]float64

// measureBatches measures a candidate on a server of its own.
func measureBatches(t task) (batches, error) {
	r, err := measure(t)
	return r.Batches, err
}

// runBatches measures batches in the child.
func runBatches(ctx context.Context, c client, t task) (childResult, error) {
	locker, ok := c.(batchLocker)
	if !ok {
		return childResult{}, errors.New(t.Candidate + " cannot lock several locks as one")
	}
	times := batches{}
	for _, n := range slices.Concat([]int{100}, memberCounts) { // the first one warms up
		members := make([]string, n)
		for i := range members {
			members[i] = "m" + strconv.Itoa(i)
		}
		median, err := medianTime(t.Window, func() error { return locker.lockAndUnlockAll(ctx, members) })
		if err != nil {
			return childResult{}, err
		}
		times[n] = float64(median) / float64(time.Millisecond)
	}
	return childResult{Batches: times}, nil
}

// medianTime calls f for the given time, and at least once. It returns the median
// time of a call.
func medianTime(window time.Duration, f func() error) (time.Duration, error) {
	var took []time.Duration
	for end := time.Now().Add(window); len(took) == 0 || time.Now().Before(end); {
		began := time.Now()
		if err := f(); err != nil {
			return 0, err
		}
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}
