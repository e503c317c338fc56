package locktest

import (
	"context"
	"errors"
	"io"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

// Op is an operation of a store.
type Op string

// The operations.
const (
	Acquire Op = "acquire"
	Wait    Op = "wait"
	Renew   Op = "renew"
	Release Op = "release"
	Inspect Op = "inspect"
	Force   Op = "force"
)

// Faulty is a store that fails as the test wants. The functions may be nil, are
// called concurrently, and may block as a slow store does.
type Faulty struct {
	lock.Store

	// Before is called before the operation. If it returns an error the operation
	// is not executed: the request got lost.
	Before func(ctx context.Context, op Op) error

	// After is called after the operation was executed. If it returns an error
	// that is the answer: the real one got lost.
	After func(ctx context.Context, op Op) error
}

// Acquire implements [lock.Store].
func (f *Faulty) Acquire(ctx context.Context, r lock.Request) (lock.Lease, error) {
	if err := call(ctx, f.Before, Acquire); err != nil {
		return lock.Lease{}, err
	}
	l, err := f.Store.Acquire(ctx, r)
	if lost := call(ctx, f.After, Acquire); lost != nil {
		return lock.Lease{}, lost
	}
	return l, err
}

// Wait implements [lock.Waiter], if the store beneath does.
func (f *Faulty) Wait(ctx context.Context, r lock.Request) (lock.Lease, error) {
	waiter, ok := f.Store.(lock.Waiter)
	if !ok {
		return lock.Lease{}, errors.ErrUnsupported
	}
	if err := call(ctx, f.Before, Wait); err != nil {
		return lock.Lease{Unanswered: true}, err
	}
	l, err := waiter.Wait(ctx, r)
	if lost := call(ctx, f.After, Wait); lost != nil {
		return lock.Lease{Unanswered: true}, lost
	}
	return l, err
}

// Renew implements [renewal.Renewer].
func (f *Faulty) Renew(ctx context.Context, batch []lock.Lease, out []renewal.Outcome) error {
	if err := call(ctx, f.Before, Renew); err != nil {
		return err
	}
	err := f.Store.Renew(ctx, batch, out)
	if lost := call(ctx, f.After, Renew); lost != nil {
		clear(out)
		return lost
	}
	return err
}

// Release implements [lock.Store].
func (f *Faulty) Release(ctx context.Context, l lock.Lease) error {
	if err := call(ctx, f.Before, Release); err != nil {
		return err
	}
	err := f.Store.Release(ctx, l)
	if lost := call(ctx, f.After, Release); lost != nil {
		return lost
	}
	return err
}

// Inspect implements [lock.Inspector], if the store beneath does.
func (f *Faulty) Inspect(ctx context.Context, key string) (lock.Info, error) {
	inspector, ok := f.Store.(lock.Inspector)
	if !ok {
		return lock.Info{}, errors.ErrUnsupported
	}
	if err := call(ctx, f.Before, Inspect); err != nil {
		return lock.Info{}, err
	}
	info, err := inspector.Inspect(ctx, key)
	if lost := call(ctx, f.After, Inspect); lost != nil {
		return lock.Info{}, lost
	}
	return info, err
}

// ForceRelease implements [lock.Inspector], if the store beneath does.
func (f *Faulty) ForceRelease(ctx context.Context, key string) error {
	inspector, ok := f.Store.(lock.Inspector)
	if !ok {
		return errors.ErrUnsupported
	}
	if err := call(ctx, f.Before, Force); err != nil {
		return err
	}
	err := inspector.ForceRelease(ctx, key)
	if lost := call(ctx, f.After, Force); lost != nil {
		return lost
	}
	return err
}

// Lane forwards to the store beneath, if its leases have lanes.
func (f *Faulty) Lane(l lock.Lease) int {
	if laner, ok := f.Store.(renewal.Laner[lock.Lease]); ok {
		return laner.Lane(l)
	}
	return 0
}

// Close closes the store beneath, if it can be closed.
func (f *Faulty) Close() error {
	if closer, ok := f.Store.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}

func call(ctx context.Context, f func(context.Context, Op) error, op Op) error {
	if f == nil {
		return nil
	}
	return f(ctx, op)
}
