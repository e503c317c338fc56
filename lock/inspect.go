// Inspect and ForceRelease.

package lock

import (
	"context"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// Inspect returns the holders of a lock of any kind and its waiters. Other processes have written
// the metadata, so quote it when you print it.
//
// The error may be ErrBadKey, ErrWrongType, the cause of ctx if that ended, or ErrUnavailable if
// the store gave no answer.
func (c *Client) Inspect(ctx context.Context, key string) (Info, error) {
	var info Info
	err := c.about(ctx, "inspect", key, checkKey(key), func(ctx context.Context) (err error) {
		info, err = c.store.Inspect(ctx, key)
		return err
	})
	return info, err
}

// ForceRelease takes the lock of a key away from all holders, in all processes, and grants it to
// the next waiters. It also frees a lock that its MinHold keeps taken. The holders learn it at
// their next renewals, by default within a third of the TTL.
//
// The error is ErrNotHeld if the lock was free or its holders changed meanwhile, or one of Inspect.
func (c *Client) ForceRelease(ctx context.Context, key string) error {
	return c.about(ctx, "force the release of", key, checkKey(key), func(ctx context.Context) error {
		return c.store.ForceRelease(ctx, key)
	})
}

// about calls f, which asks the store about a key, or returns an error, such as wrong, which is what is wrong with the key.
func (c *Client) about(ctx context.Context, verb, key string, wrong error, f func(context.Context) error) error {
	if !c.ok() {
		return errZeroClient
	}
	if wrong == nil {
		wrong = c.ask(ctx, f)
	}
	if wrong != nil {
		return failed(verb, key, wrong)
	}
	return nil
}

// ask calls f, which calls the store, with a context that ends when the client is closed. f
// acquires nothing.
func (c *core) ask(ctx context.Context, f func(context.Context) error) error {
	switch {
	case ctx == nil:
		return basic.ErrNilContext
	case ctx.Err() != nil:
		return causeOf(ctx)
	}
	if !c.gate.Enter() {
		return ErrClosed
	}
	defer c.gate.Leave()
	caller := ctx
	ctx, stop := c.whileOpen(caller)
	defer stop()
	began := time.Now()
	err := f(ctx)
	c.health.record(err, driver.VerdictOf(err), began, false)
	return c.reveal(caller, err)
}
