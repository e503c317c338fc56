// The candidates, and the acquisition of their locks.

package main

import (
	"context"
	"fmt"
	"strconv"
)

// candidate is a lock client under test.
type candidate struct {
	name string
	ours bool

	// key returns the name of the i-th lock on the server.
	key func(i int) string

	open func(task) (client, error)
}

// client is a lock client in a process of its own. The benchmark never closes it,
// because its process ends.
type client interface {
	// lock acquires the i-th lock and keeps it.
	lock(ctx context.Context, i int) error

	// lost returns how many locks the client has reported as lost.
	lost() int
}

// candidates returns all candidates in the order of the table.
func candidates() []candidate {
	return []candidate{wheelEngine, heapEngine, redsyncPeer, redislockPeer, rueidisPeer, rueidisDefaultPeer}
}

func findCandidate(name string) (candidate, error) {
	for _, c := range candidates() {
		if c.name == name {
			return c, nil
		}
	}
	return candidate{}, fmt.Errorf("unknown candidate %q", name)
}

// lockName returns the name of the i-th lock.
func lockName(i int) string { return "bench:" + strconv.Itoa(i) }

// acquirers is the number of goroutines that acquire locks.
const acquirers = 64
