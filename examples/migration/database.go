// The database: its version, its steps and its highest token.

package main

import (
	"fmt"
	"sync"

	"github.com/leasewheel/leasewheel/lock/fence"
)

// steps lead from each version of the database to the next one.
var steps = []string{"create table orders", "add column price", "create index on price"}

// database stands for a real one, in which a step and the statement
//
//	UPDATE schema SET version = 2, fence = 33 WHERE version = 1 AND fence <= 33
//
// are one transaction; see package fence.
type database struct {
	newest chan struct{} // closed at the newest version

	mu      sync.Mutex // guards all below
	version int
	fence   uint64 // highest token
}

func newDatabase() *database { return &database{newest: make(chan struct{})} }

// current returns the version.
func (d *database) current() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.version
}

// migrate takes the step from the given version to the next one. It refuses tokens below
// the highest one that it has seen.
func (d *database) migrate(version int, token uint64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case token < d.fence:
		return &fence.StaleError{Resource: "schema", Token: token, Highest: d.fence}
	case version != d.version:
		return fmt.Errorf("the database has version %d, not %d", d.version, version)
	}
	d.version, d.fence = version+1, token
	if d.version == len(steps) {
		close(d.newest)
	}
	return nil
}
