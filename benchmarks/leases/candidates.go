// The candidates, and the acquisition of their locks.

package main

import (
	"context"
	"fmt"
	"strconv"

	"github.com/leasewheel/leasewheel/renewal"
)

// candidate is a lock client under test.
type candidate struct {
	name string
	ours bool

	// saturating is how many locks keep the client as busy as it can be. 0 means all
	// locks of the run.
	saturating int

	// key returns the name of the i-th lock on the server.
	key func(i int) string

	open func(task) (client, error)
}

// client is a lock client in a process of its own. The benchmark never closes it,
// because its process ends.
type client interface {
	// lock acquires the i-th lock and keeps it.
	lock(ctx context.Context, i int) error

	// ready is called once, after all locks are acquired.
	ready()

	// stats returns what the client knows about its locks.
	stats() clientStats
}

// clientStats is what a client knows about its locks.
type clientStats struct {
	lost int               // losses that the client reported
	late renewal.Histogram // how late renewals were sent; only our clients know
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
