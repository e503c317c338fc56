package lock

import (
	"math/rand/v2"
	"time"
)

// ConstantBackoff returns an Options.Backoff that is always d. Use it if you know how long
// the lock is held. Clients that collide once collide again, so use [ExponentialBackoff]
// if there are many.
func ConstantBackoff(d time.Duration) func(n int) time.Duration {
	return func(int) time.Duration { return d }
}

// ExponentialBackoff returns an Options.Backoff that doubles from first to most: after try
// n, counted from 0, it is first·2ⁿ, at most most. The upper half of that is random, so
// clients that collide once do not collide again. A first below a millisecond counts as
// one millisecond, and a most below first counts as first.
func ExponentialBackoff(first, most time.Duration) func(n int) time.Duration {
	first = max(first, time.Millisecond)
	return func(n int) time.Duration {
		d := first
		for ; n > 0 && d < most; n-- {
			d += min(d, most-d) // cannot overflow
		}
		return d/2 + rand.N(d-d/2)
	}
}

// defaultBackoff is the default of Options.Backoff, and the backoff of a Multi.
var defaultBackoff = ExponentialBackoff(10*time.Millisecond, 250*time.Millisecond)
