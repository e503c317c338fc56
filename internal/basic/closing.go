// Closing, a shutdown that runs once, and Await.

package basic

import (
	"context"
	"sync"
)

// Closing runs the shutdown of something once and has every call wait for it. The zero
// Closing is ready for use.
type Closing struct {
	mu   sync.Mutex // guards done
	done chan struct{}
	err  error // is written before done is closed
}

// Do calls shutdown if it is the first Do, and returns its result. Any other Do waits for
// that and returns the same result, or the cause of its ctx if that ends before.
func (c *Closing) Do(ctx context.Context, shutdown func() error) error {
	c.mu.Lock()
	done := c.done
	if done == nil {
		c.done = make(chan struct{})
		c.mu.Unlock()
		defer close(c.done) // also if shutdown panics
		c.err = shutdown()
		return c.err
	}
	c.mu.Unlock()
	if err := Await(ctx, done); err != nil {
		return err
	}
	return c.err
}

// Await returns when done is closed, or the cause of ctx if that ends before. If done is closed already, the end of ctx does
// not matter.
func Await(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	default:
	}
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
