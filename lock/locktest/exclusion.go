// Exclusion, a checker of mutual exclusion and tokens for exclusive locks.

package locktest

import (
	"strconv"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// Exclusion is [Conflicts] for exclusive locks, which it knows by their keys and tokens. Its methods are
// safe for concurrent use.
type Exclusion struct{ conflicts *Conflicts }

// NewExclusion returns a checker without holders.
func NewExclusion() *Exclusion { return &Exclusion{NewConflicts()} }

// Enter records a holder of the key by its token. It is a violation if the key has
// another holder, or if the token does not rise.
func (e *Exclusion) Enter(key string, token uint64) { e.conflicts.Enter(exclusive(key, token)) }

// Leave records that the holder no longer relies on the lock.
func (e *Exclusion) Leave(key string, token uint64) { e.conflicts.Leave(exclusive(key, token)) }

// Entered returns the number of holders so far.
func (e *Exclusion) Entered() int { return e.conflicts.Entered(driver.Exclusive) }

// Violations returns a description of each violation.
func (e *Exclusion) Violations() []string { return e.conflicts.Violations() }

func exclusive(key string, token uint64) driver.Lease {
	return driver.Lease{Request: driver.Request{Key: key, Owner: strconv.FormatUint(token, 10)}, Token: token}
}
