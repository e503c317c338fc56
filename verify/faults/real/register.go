// A resource that a lock protects, which rejects stale tokens.

package real

import "sync"

// register is a resource that a lock protects. It rejects tokens below the highest one so
// far. It is safe for concurrent use.
type register struct {
	mu      sync.Mutex // guards the fields below
	highest uint64
	value   int
	acked   int // number of acknowledged writes
	refused int
}

// read returns the value. It returns false if the token is stale.
func (r *register) read(token uint64) (int, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.value, r.passes(token)
}

// write sets the value. It returns false if the token is stale.
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

// increment reads the value, calls between, and writes the value plus one.
func (r *register) increment(token uint64, between func()) bool {
	value, ok := r.read(token)
	if !ok {
		return false
	}
	between()
	return r.write(token, value+1)
}

// lostWrites returns the number of acknowledged writes that are missing.
func (r *register) lostWrites() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.acked - r.value
}
