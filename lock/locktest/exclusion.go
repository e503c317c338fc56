// Exclusion, a checker of mutual exclusion and tokens for exclusive locks.

package locktest

import (
	"fmt"
	"sync"
)

// Exclusion checks mutual exclusion and fencing. Holders report when they begin and end
// to rely on a lock. Its methods are safe for concurrent use.
type Exclusion struct {
	mu         sync.Mutex // guards all below
	holder     map[string]uint64
	last       map[string]uint64
	entered    int
	violations []string
}

// NewExclusion returns a checker without holders.
func NewExclusion() *Exclusion {
	return &Exclusion{holder: make(map[string]uint64), last: make(map[string]uint64)}
}

// Enter records a holder of the key by its token. It is a violation if the key has
// another holder, or if the token does not rise.
func (e *Exclusion) Enter(key string, token uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.entered++
	if holder, ok := e.holder[key]; ok {
		e.violations = append(e.violations, fmt.Sprintf("%q: token %d enters while %d is inside", key, token, holder))
	}
	if last := e.last[key]; token <= last && token > 0 {
		e.violations = append(e.violations, fmt.Sprintf("%q: token %d after %d", key, token, last))
	}
	e.holder[key], e.last[key] = token, token
}

// Leave records that the holder no longer relies on the lock.
func (e *Exclusion) Leave(key string, token uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.holder[key] == token {
		delete(e.holder, key)
	}
}

// Entered returns the number of holders so far.
func (e *Exclusion) Entered() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.entered
}

// Violations returns a description of each violation.
func (e *Exclusion) Violations() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return append([]string(nil), e.violations...)
}
