package locktest

import (
	"fmt"
	"slices"
	"sync"

	"github.com/leasewheel/leasewheel/lock"
)

// Conflicts checks from the outside, for leases of all modes, that no two are held
// at a time that exclude each other, and that of two which do the later one has the
// higher token: holders tell it when they begin and end to rely on a lease. Its
// methods are safe for concurrent use.
type Conflicts struct {
	mu         sync.Mutex // guards all below
	inside     map[string][]lock.Lease
	before     map[string][]lock.Lease // of each key, the last that others would have been excluded by
	entered    map[lock.Mode]int
	most       map[string]int
	violations []string
}

// NewConflicts returns a checker that knows of no holders.
func NewConflicts() *Conflicts {
	return &Conflicts{
		inside:  make(map[string][]lock.Lease),
		before:  make(map[string][]lock.Lease),
		entered: make(map[lock.Mode]int),
		most:    make(map[string]int),
	}
}

// Enter notes a holder. It is a violation if others are inside that exclude it, if
// a semaphore has more holders than this one's limit, or if its token is not higher
// than those of all whom it excludes and who were here before; 0 stands for a store
// that has no tokens.
func (c *Conflicts) Enter(l lock.Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, other := range c.inside[l.Key] {
		if excludes(l.Request, other.Request) {
			c.violate("%v with token %d enters while %v with %d is inside", l, l.Token, other, other.Token)
		}
		if other.Token == l.Token && l.Token > 0 {
			c.violate("%v enters with the token %d of another", l, l.Token)
		}
	}
	if n := len(c.inside[l.Key]); l.Mode == lock.Permit && n >= l.Limit() {
		c.violate("%v enters while %d are inside, with a limit of %d", l, n, l.Limit())
	}
	c.before[l.Key] = slices.DeleteFunc(c.before[l.Key], func(other lock.Lease) bool {
		if !excludes(l.Request, other.Request) {
			return false
		}
		same := l.Token == 0 || l.Token == other.Token && l.Owner == other.Owner // a writer became a reader
		if l.Token <= other.Token && !same {
			c.violate("%v: token %d after %d", l, l.Token, other.Token)
		}
		return covers(l.Request, other.Request)
	})
	c.before[l.Key] = append(c.before[l.Key], l)
	c.inside[l.Key] = append(c.inside[l.Key], l)
	c.entered[l.Mode]++
	c.most[l.Key] = max(c.most[l.Key], len(c.inside[l.Key]))
}

// Leave notes that the holder does not rely on the lease any more.
func (c *Conflicts) Leave(l lock.Lease) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.inside[l.Key] = slices.DeleteFunc(c.inside[l.Key], func(other lock.Lease) bool { return other.Owner == l.Owner })
}

// Entered returns how many holders there were in a mode.
func (c *Conflicts) Entered(m lock.Mode) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.entered[m]
}

// Most returns how many held a key at one time.
func (c *Conflicts) Most(key string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.most[key]
}

// Violations returns what was wrong, in words.
func (c *Conflicts) Violations() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.violations)
}

// violate notes what was wrong. The caller holds mu.
func (c *Conflicts) violate(format string, args ...any) {
	c.violations = append(c.violations, fmt.Sprintf(format, args...))
}

// excludes tells whether two requests of a key cannot be granted at one time. Those
// for permits can, up to their limit.
func excludes(a, b lock.Request) bool {
	switch {
	case familyOf(a.Mode) != familyOf(b.Mode):
		return true
	case a.Mode == lock.Permit:
		return false
	case a.Mode == lock.Members:
		return slices.ContainsFunc(a.Members(), func(m string) bool { return slices.Contains(b.Members(), m) })
	}
	return a.Mode != lock.Read || b.Mode != lock.Read
}

// covers tells whether all that b excludes is excluded by a.
func covers(a, b lock.Request) bool {
	if a.Mode != lock.Members {
		return a.Mode != lock.Read && excludes(a, b)
	}
	return !slices.ContainsFunc(b.Members(), func(m string) bool { return !slices.Contains(a.Members(), m) })
}
