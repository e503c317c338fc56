package redisstore

import (
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// exclusiveCall holds the arguments of a script for an exclusive lock. It is one allocation,
// because go-redis dereferences pointers among the arguments, and an any that holds a
// pointer needs none. The arguments point into the call, so it serves one call after another.
type exclusiveCall struct {
	keys    keys
	owner   string
	numbers [3]int64
	args    [12]any
}

// exclusiveCalls keeps calls that were answered.
var exclusiveCalls = sync.Pool{New: func() any {
	c := new(exclusiveCall)
	k := &c.keys
	copy(c.args[2:], []any{5, &k.lock, &k.token, &k.queue, &k.places, &k.tombstone, &c.owner})
	return c
}}

// newExclusiveCall returns a call for a request. Its args are complete up to the owner:
// args[9] is the first that is left.
func (s *Store) newExclusiveCall(r *driver.Request) *exclusiveCall {
	c := exclusiveCalls.Get().(*exclusiveCall)
	c.owner = wireOwner(r)
	s.setKeys(&c.keys, r.Key, r.Owner)
	return c
}

// setNumbers sets the arguments after the owner to durations, in milliseconds. It returns all
// arguments.
func (c *exclusiveCall) setNumbers(durations ...time.Duration) []any {
	const first = 9
	for i, d := range durations {
		c.numbers[i] = d.Milliseconds()
		c.args[first+i] = &c.numbers[i]
	}
	return c.args[:first+len(durations)]
}

// free lets another request use the call. The caller has got a reply; see [redisconn.Client.Run].
// After an error, go-redis may still be writing the arguments.
func (c *exclusiveCall) free() {
	c.keys, c.owner = keys{}, ""
	exclusiveCalls.Put(c)
}
