package lock

import (
	"math/rand/v2"
	"time"
)

// ConstantBackoff returns an Options.Backoff that is always d, for callers that know
// how long the lock is held. Clients that have collided once collide again; where
// there are many of them, take [ExponentialBackoff].
func ConstantBackoff(d time.Duration) func(n int) time.Duration {
	return func(int) time.Duration { return d }
}

// ExponentialBackoff returns an Options.Backoff that doubles from first to most:
// after the n-th try, from 0, it is first·2ⁿ, but not above most. The upper half of
// that is random, so that clients that have collided once do not collide again. A
// first below a millisecond counts as one, a most below first as first.
func ExponentialBackoff(first, most time.Duration) func(n int) time.Duration {
	first = max(first, time.Millisecond)
	return func(n int) time.Duration {
		d := first
		for ; n > 0 && d < most; n-- {
			d += min(d, most-d) // which cannot overflow
		}
		return d/2 + rand.N(d-d/2)
	}
}

// defaultBackoff is that of a client which was given none, and of a Multi.
var defaultBackoff = ExponentialBackoff(10*time.Millisecond, 250*time.Millisecond)
