package redislock

import (
	"sync/atomic"
	"time"
)

// RetryStrategy says when Obtain tries again. The strategies of this package are safe for
// concurrent use, and those that count have one count for all calls of Obtain that use them.
type RetryStrategy interface {
	// NextBackoff returns the time before the next try. If it is 0 or less, there is no further try.
	NextBackoff() time.Duration
}

// NoRetry returns a strategy without a second try.
func NoRetry() RetryStrategy { return linear(0) }

// LinearBackoff returns a strategy with the same time before each try.
func LinearBackoff(backoff time.Duration) RetryStrategy { return linear(backoff) }

type linear time.Duration

func (l linear) NextBackoff() time.Duration { return time.Duration(l) }

// LimitRetry returns a strategy that asks s for the given number of retries, and then ends.
func LimitRetry(s RetryStrategy, retries int) RetryStrategy {
	return &limited{of: s, max: int64(retries)}
}

type limited struct {
	of    RetryStrategy
	max   int64
	calls atomic.Int64
}

func (l *limited) NextBackoff() time.Duration {
	if l.calls.Add(1) > l.max {
		return 0
	}
	return l.of.NextBackoff()
}

// ExponentialBackoff returns a strategy whose times begin with 4 ms and double, within the bounds. If
// longest is 0, they grow up to about 19 hours.
func ExponentialBackoff(shortest, longest time.Duration) RetryStrategy {
	return &exponential{shortest: shortest, longest: longest}
}

type exponential struct {
	shortest, longest time.Duration
	calls             atomic.Uint64
}

// maxDoublings is the number of calls after which the times grow no more.
const maxDoublings = 25

func (e *exponential) NextBackoff() time.Duration {
	d := time.Millisecond << (min(e.calls.Add(1), maxDoublings) + 1)
	if e.longest != 0 {
		d = min(d, e.longest)
	}
	return max(d, e.shortest)
}
