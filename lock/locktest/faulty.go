// Faulty, a store with injected faults, and Plain, one that can do little.

package locktest

import (
	"context"
	"errors"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// Op is an operation of a store: the Name of a [driver.Call].
type Op string

// The operations.
const (
	Acquire      Op = "acquire"
	Wait         Op = "wait"
	Renew        Op = "renew"
	Release      Op = "release"
	Inspect      Op = "inspect"
	ForceRelease Op = "force release"
	List         Op = "list"
	SetMetadata  Op = "set metadata"
	Save         Op = "save"
	Forget       Op = "forget"
)

// Faulty is a store with injected faults, over the store that was given to [Faulty.Over]. The functions
// may be nil. They are called concurrently, and may block to simulate a slow store. Tests of programs
// need [faulttest.Server] instead.
//
// [faulttest.Server]: https://pkg.go.dev/github.com/leasewheel/leasewheel/lock/faulttest#Server
type Faulty struct {
	driver.Store

	// Before is called before an operation. If it returns an error, the request is lost:
	// the operation is not executed and returns the error.
	Before func(ctx context.Context, op Op) error

	// After is called after an operation was executed. If it returns an error, the answer
	// is lost: the operation returns the error.
	After func(ctx context.Context, op Op) error
}

// Over makes f call the given store, and returns f. A release of several leases calls Before and After once
// per lease.
func (f *Faulty) Over(store driver.Store) *Faulty {
	f.Store = driver.Wrap(store, f.around)
	return f
}

func (f *Faulty) around(ctx context.Context, c *driver.Call, next func(context.Context) error) error {
	op := Op(c.Name)
	if c.Errors != nil {
		return f.releaseAll(ctx, c, next)
	}
	if err := call(ctx, f.Before, op); err != nil {
		c.Granted.Unanswered = op == Wait && !errors.Is(err, driver.ErrNotSent)
		return err
	}
	err := next(ctx)
	if lost := call(ctx, f.After, op); lost != nil {
		c.Granted = driver.Lease{Unanswered: op == Wait}
		clear(c.Outcomes)
		return lost
	}
	return err
}

func (f *Faulty) releaseAll(ctx context.Context, c *driver.Call, next func(context.Context) error) error {
	batch, out := c.Leases, c.Errors
	var at []int
	c.Leases = nil
	for i, l := range batch {
		if out[i] = call(ctx, f.Before, Release); out[i] == nil {
			c.Leases, at = append(c.Leases, l), append(at, i)
		}
	}
	c.Errors = make([]error, len(at))
	if err := next(ctx); err != nil {
		return err
	}
	for k, i := range at {
		out[i] = c.Errors[k]
		if lost := call(ctx, f.After, Release); lost != nil {
			out[i] = lost
		}
	}
	return nil
}

func call(ctx context.Context, f func(context.Context, Op) error, op Op) error {
	if f == nil {
		return nil
	}
	return f(ctx, op)
}

// Plain returns a store with no methods but Acquire, Renew and Release of the given one, and those of
// [driver.Base].
func Plain(store driver.Store) driver.Store { return &plain{of: store} }

type plain struct {
	driver.Base
	of driver.Store
}

func (p *plain) Acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	return p.of.Acquire(ctx, r)
}

func (p *plain) Renew(ctx context.Context, batch []driver.Lease, out []renewal.Outcome) error {
	return p.of.Renew(ctx, batch, out)
}

func (p *plain) Release(ctx context.Context, l driver.Lease) error { return p.of.Release(ctx, l) }
