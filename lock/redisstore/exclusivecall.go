package redisstore

import (
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// exclusiveCall holds the arguments of a script for an exclusive lock. It is one allocation,
// because go-redis dereferences pointers among the arguments, and an any that holds a
// pointer needs none.
type exclusiveCall struct {
	keys    keys
	owner   string
	numbers [2]int64
	args    [12]any
}

// newExclusiveCall returns a call for a request. Its args are complete up to the owner:
// args[9] is the first that is left.
func (s *Store) newExclusiveCall(r *driver.Request) *exclusiveCall {
	c := &exclusiveCall{owner: wireOwner(r)}
	s.setKeys(&c.keys, r.Key, r.Owner)
	k := &c.keys
	copy(c.args[2:], []any{5, &k.lock, &k.token, &k.queue, &k.places, &k.tombstone, &c.owner})
	return c
}

// number returns an argument that is the i-th duration, in milliseconds.
func (c *exclusiveCall) number(i int, d time.Duration) *int64 {
	c.numbers[i] = d.Milliseconds()
	return &c.numbers[i]
}
