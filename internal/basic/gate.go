// Gate, a count of the calls under way.

package basic

import "sync"

// Gate counts the calls under way of something that is closed once. The zero Gate is open.
type Gate struct {
	mu     sync.Mutex // guards the fields below
	calls  int
	closed bool
	empty  chan struct{} // nil until Close; closed when no call is under way any more
}

// Enter reports whether a call may begin, and counts it. Leave must follow then.
func (g *Gate) Enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.calls++
	return true
}

// Len returns how many calls are under way.
func (g *Gate) Len() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.calls
}

// Leave ends a call.
func (g *Gate) Leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls--
	if g.closed && g.calls == 0 {
		close(g.empty)
	}
}

// Close refuses further calls, and returns a channel that is closed when none is under way.
func (g *Gate) Close() <-chan struct{} {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.closed {
		g.closed, g.empty = true, make(chan struct{})
		if g.calls == 0 {
			close(g.empty)
		}
	}
	return g.empty
}
