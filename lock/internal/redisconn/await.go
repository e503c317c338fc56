package redisconn

import (
	"context"
	"time"
)

// await calls f, which sends a request to the server, and returns its result. It returns
// an error before f does when ctx ends, the client is closed, or the bound has passed.
//
// f runs on its own goroutine, because go-redis may not return when ctx ends; see the
// package comment. After await has returned early, f continues until its deadline, or until
// Close closes its connection. The caller must therefore not reuse any memory that f uses.
func await[T any](ctx context.Context, cs *calls, bound time.Duration, f func(context.Context) (T, error)) (T, error) {
	var none T
	if err := cs.begin(ctx); err != nil {
		return none, err
	}
	ctx, cancel := context.WithTimeoutCause(ctx, bound, NoAnswerError(bound))
	defer cancel() // an abandoned f that still waits for a connection then sends nothing

	type result struct {
		value T
		err   error
	}
	done := make(chan result, 1)
	go func() {
		defer cs.running.Done()
		value, err := f(ctx)
		done <- result{value, err}
	}()
	select {
	case r := <-done:
		if r.err != nil {
			return none, cs.reason(ctx, r.err)
		}
		return r.value, nil
	case <-ctx.Done():
		return none, context.Cause(ctx)
	case <-cs.closing:
		return none, ErrClosed
	}
}
