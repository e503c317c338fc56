// Conflicts, a checker of mutual exclusion and tokens for all modes.

package locktest

import (
	"fmt"
	"slices"
	"sync"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// Conflicts checks mutual exclusion and fencing of leases of all modes. Holders report
// when they begin and end to rely on a lease. Conflicts detects leases that exclude each
// other and are held together, and tokens that do not rise between them. Its methods are
// safe for concurrent use.
type Conflicts struct {
	mu         sync.Mutex // guards all below
	inside     map[string][]driver.Lease
	before     map[string][]driver.Lease // by key: the last leases that could conflict with later ones
	entered    map[driver.Mode]int
	most       map[string]int
	violations []string
}

// NewConflicts returns a checker without holders.
func NewConflicts() *Conflicts {
	return &Conflicts{
		inside:  make(map[string][]driver.Lease),
		before:  make(map[string][]driver.Lease),
		entered: make(map[driver.Mode]int),
		most:    make(map[string]int),
	}
}

// Enter records a holder. It is a violation if another holder excludes it, if a semaphore
// has more holders than this request's limit, or if its token is not greater than those
// of all earlier leases that exclude it. The token 0 means that the store has no tokens.
func (c *Conflicts) Enter(l driver.Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, other := range c.inside[l.Key] {
		if excludes(l.Request, other.Request) {
			c.violate("%v with token %d enters while %v with %d is inside", l, l.Token, other, other.Token)
		}
		if other.Token == l.Token && l.Token > 0 {
			c.violate("%v enters with token %d of another holder", l, l.Token)
		}
	}
	if n := permitsOf(c.inside[l.Key]); l.Mode == driver.Permit && n+l.Permits() > l.Limit() {
		c.violate("%v of %d permits enters while %d are held, with a limit of %d", l, l.Permits(), n, l.Limit())
	}
	c.before[l.Key] = slices.DeleteFunc(c.before[l.Key], func(other driver.Lease) bool {
		if !excludes(l.Request, other.Request) {
			return false
		}
		same := l.Token == other.Token && l.Owner == other.Owner && l.Mode != other.Mode // a writer became a reader
		if l.Token <= other.Token && l.Token > 0 && !same {
			c.violate("%v: token %d after %d", l, l.Token, other.Token)
		}
		return covers(l.Request, other.Request)
	})
	c.before[l.Key] = append(c.before[l.Key], l)
	c.inside[l.Key] = append(c.inside[l.Key], l)
	c.entered[l.Mode]++
	c.most[l.Key] = max(c.most[l.Key], len(c.inside[l.Key]))
}

func permitsOf(leases []driver.Lease) (n int) {
	for _, l := range leases {
		n += l.Permits()
	}
	return n
}

// Leave records that the holder no longer relies on the lease.
func (c *Conflicts) Leave(l driver.Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inside[l.Key] = slices.DeleteFunc(c.inside[l.Key], func(other driver.Lease) bool { return other.Owner == l.Owner })
}

// Entered returns the number of holders in a mode.
func (c *Conflicts) Entered(m driver.Mode) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.entered[m]
}

// Most returns the greatest number of holders of a key at one time.
func (c *Conflicts) Most(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most[key]
}

// Violations returns a description of each violation.
func (c *Conflicts) Violations() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.violations)
}

// violate records a violation. The caller holds mu.
func (c *Conflicts) violate(format string, args ...any) {
	c.violations = append(c.violations, fmt.Sprintf(format, args...))
}

// excludes reports whether two requests for a key cannot be granted together. Requests
// for permits can, up to their limit.
func excludes(a, b driver.Request) bool {
	switch {
	case familyOf(a.Mode) != familyOf(b.Mode):
		return true
	case a.Mode == driver.Permit:
		return false
	case a.Mode == driver.Members:
		return slices.ContainsFunc(a.Members(), func(m string) bool { return slices.Contains(b.Members(), m) })
	}
	return a.Mode != driver.Read || b.Mode != driver.Read
}

// covers reports whether a excludes every request that b excludes.
func covers(a, b driver.Request) bool {
	if a.Mode != driver.Members {
		return a.Mode != driver.Read && excludes(a, b)
	}
	return !slices.ContainsFunc(b.Members(), func(m string) bool { return !slices.Contains(a.Members(), m) })
}
