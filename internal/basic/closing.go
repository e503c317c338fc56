// Closing, a shutdown that runs once.

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
	select {
	case <-done:
		return c.err
	default:
	}
	select {
	case <-done:
		return c.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
