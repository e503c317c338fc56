// Retries and their strategies.

package redislock

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
)

// RetryStrategy says when Obtain and Refresh try again. The strategies of this package are safe for
// concurrent use. A strategy that counts has one count for all calls that use it.
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

// withRetry calls try until it succeeds, says that there is no point in another try, or the
// strategy of opt ends. It returns the error of the last try. If ctx ends, the error is that of ctx,
// joined with the error of the try before, if there was one. A ctx without a deadline ends after ttl.
func withRetry(ctx context.Context, ttl time.Duration, opt *Options, try func(context.Context) (again bool, err error)) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, ttl)
		defer cancel()
	}
	strategy := NoRetry()
	if opt != nil && opt.RetryStrategy != nil {
		strategy = opt.RetryStrategy
	}
	var before error
	for {
		again, err := try(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() != nil && errors.Is(err, ctx.Err()):
			if before != nil {
				err = errors.Join(before, ctx.Err())
			}
			return err
		case !again:
			return err
		}
		before = err
		backoff := strategy.NextBackoff()
		if backoff < 1 {
			return err
		}
		if ended := basic.Sleep(ctx, backoff); ended != nil {
			return errors.Join(err, ended)
		}
	}
}
