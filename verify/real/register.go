package real

import "sync"

// register is a resource that a lock protects, as the package documentation of lock
// asks for: it refuses tokens below the highest that it has seen. Its methods are
// safe for concurrent use.
type register struct {
	mu      sync.Mutex // guards all below
	highest uint64
	value   int
	acked   int // writes
	refused int
}

// read returns the value, unless the token is stale.
func (r *register) read(token uint64) (int, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.value, r.passes(token)
}

// write sets the value, unless the token is stale.
func (r *register) write(token uint64, value int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.passes(token) {
		return false
	}
	r.value = value
	r.acked++
	return true
}

func (r *register) passes(token uint64) bool {
	if token < r.highest {
		r.refused++
		return false
	}
	r.highest = token
	return true
}

// increment adds one in two steps, as those do who need a lock.
func (r *register) increment(token uint64, between func()) bool {
	value, ok := r.read(token)
	if !ok {
		return false
	}
	between()
	return r.write(token, value+1)
}

// lostWrites returns how many writes were acknowledged and are not there.
func (r *register) lostWrites() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.acked - r.value
}
