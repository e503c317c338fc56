// Names of owners that are the same in every run of a seed.

package simrand

import (
	"strconv"
	"strings"
	"sync"
)

// Names gives each owner of a lock a name that is the same in every run of a seed. Owners are
// random, so nothing that a seed decides may depend on them. A process numbers its owners in
// the order in which they are added. The methods of Names are safe for concurrent use; its
// zero value is ready for use.
type Names struct {
	mu    sync.Mutex // guards the fields below
	known map[string]string
	last  map[int]uint64 // by process
}

// Add gives an owner of a process a name, unless it has one.
func (n *Names) Add(process int, owner string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, known := n.known[owner]; known {
		return
	}
	if n.known == nil {
		n.known, n.last = map[string]string{}, map[int]uint64{}
	}
	n.last[process]++
	n.known[owner] = strconv.FormatUint(n.last[process], 36)
}

// Of returns the name of an owner. It keeps what a store has appended to the owner: a dot or a
// brace and more. It returns an owner that was not added as it is.
func (n *Names) Of(owner string) string {
	base, suffix := owner, ""
	if at := strings.IndexAny(owner, ".{"); at >= 0 {
		base, suffix = owner[:at], owner[at:]
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if name, known := n.known[base]; known {
		return name + suffix
	}
	return owner
}
