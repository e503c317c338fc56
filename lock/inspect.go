package lock

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Inspector may be implemented by a Store that can show its locks. Both methods answer
// ErrWrongType if something that is no lock lies at the key. A wrapper of stores answers
// errors.ErrUnsupported if what it wraps cannot.
type Inspector interface {
	// Inspect shows what the store knows of a lock at one instant. A key that
	// nobody holds is no error.
	Inspect(ctx context.Context, key string) (Info, error)

	// ForceRelease takes a lock away from all its holders, whoever they are, and
	// passes it on to those that wait. They are told at their next renewal at the
	// latest: until then two may believe that they hold the lock, and only the
	// fencing token tells them apart. It returns ErrNotHeld if nobody holds the
	// lock, or others do by now than those that it had seen.
	ForceRelease(ctx context.Context, key string) error
}

// Info is what a store knows of a lock at one instant. Owners are not shown: they
// are secrets.
type Info struct {
	Holders []Holder // in the order of their grants, the first 16 at most; empty if the lock is free
	Held    int      // how many hold it, those beyond the first 16 included
	Waiting int      // owners in the queue, those included that have died in it
	Token   uint64   // the last one granted, 0 if it is forgotten
}

// Holder is one lease of a lock.
type Holder struct {
	Mode      Mode
	Token     uint64
	ExpiresIn time.Duration // until the lease ends unless it is renewed
	Metadata  string        // that its holder gave
	Members   int           // of a lease in mode Members: how many it holds
}

// Inspect shows who holds the lock of a key, of whatever kind, and how many wait for
// it. It is a look at one instant: what it shows may be over when it is seen. The
// metadata are what others wrote; quote them in what you print.
//
// Errors: errors.ErrUnsupported if the store shows nothing, ErrBadKey, ErrWrongType,
// ErrClosed, ctx's cause, those of the store.
func (c *Client) Inspect(ctx context.Context, key string) (Info, error) {
	var info Info
	err := c.look(ctx, "inspect", key, func(ctx context.Context, s Inspector) (err error) {
		info, err = s.Inspect(ctx, key)
		return err
	})
	return info, err
}

// ForceRelease takes the lock of a key away from all who hold it, in whatever
// process, and passes it on to those that wait: for a holder that hangs and goes on
// renewing. The holders are told by their next renewal, within a third of the TTL
// unless Options say otherwise; until then they and the next holder may all
// believe that they hold it, and only the fencing token tells them apart.
//
// ErrNotHeld says that nobody held the lock, or others by now than those that were
// seen. The other errors are those of Inspect.
func (c *Client) ForceRelease(ctx context.Context, key string) error {
	return c.look(ctx, "force the release of", key, func(ctx context.Context, s Inspector) error {
		return s.ForceRelease(ctx, key)
	})
}

// look calls f, which asks the store for something that not all have.
func (c *Client) look(ctx context.Context, verb, key string, f func(context.Context, Inspector) error) error {
	if c == nil || c.core == nil {
		return errZeroLock
	}
	err := func() error {
		inspector, ok := c.store.(Inspector)
		switch err := checkKey(key); {
		case err != nil:
			return err
		case ctx == nil:
			return errNilContext
		case !ok:
			return fmt.Errorf("the store shows nothing: %w", errors.ErrUnsupported)
		}
		if err := c.begin(); err != nil {
			return err
		}
		defer c.done()
		ctx, stop := c.whileOpen(ctx)
		defer stop()
		return f(ctx, inspector)
	}()
	if err != nil {
		return failed(verb, key, err)
	}
	return nil
}
