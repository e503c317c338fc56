// Printing: the kinds of locks show what they name, and no owners, which are secrets.

package lock

import (
	"fmt"
	"strings"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// String returns the kind and the key.
func (m *Mutex) String() string { return "mutex " + basic.Quote(m.Key()) }

// String returns the kind and the key.
func (m *RWMutex) String() string { return "rwmutex " + basic.Quote(m.Key()) }

// String returns the kind and the key.
func (r *Reentrant) String() string { return "reentrant " + basic.Quote(r.Key()) }

// String returns the kind, the key and the limit.
func (s *Semaphore) String() string {
	if s == nil {
		return `semaphore ""`
	}
	return fmt.Sprintf("semaphore %s of %d permits", basic.Quote(s.Key()), s.limit())
}

// String returns the kind, the key and the number of members.
func (b *Batch) String() string {
	if b == nil {
		return `batch ""`
	}
	return fmt.Sprintf("batch %s of %d members", basic.Quote(b.group), len(driver.Request{Attrs: b.extra}.Members()))
}

// String returns the kind, the key and the name of the candidate.
func (e *Election) String() string {
	if e == nil {
		return `election ""`
	}
	return "election " + basic.Quote(e.key) + " for " + basic.Quote(e.name)
}

// String returns the locks.
func (m *multi) String() string {
	names := make([]string, len(m.locks))
	for i, l := range m.locks {
		names[i] = fmt.Sprintf("%T", l)
		if named, ok := l.(fmt.Stringer); ok {
			names[i] = named.String()
		}
	}
	return "multi of " + strings.Join(names, ", ")
}
