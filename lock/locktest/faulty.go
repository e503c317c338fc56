// This file is about Faulty, a store with injected faults.

package locktest

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// Op is an operation of a store.
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

// Faulty is a store with injected faults. The functions may be nil. They are called
// concurrently, and may block to simulate a slow store.
type Faulty struct {
	driver.Store

	// Before is called before an operation. If it returns an error, the request is lost:
	// the operation is not executed and returns the error.
	Before func(ctx context.Context, op Op) error

	// After is called after an operation was executed. If it returns an error, the answer
	// is lost: the operation returns the error.
	After func(ctx context.Context, op Op) error
}

// Acquire implements [driver.Store].
func (f *Faulty) Acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	if err := call(ctx, f.Before, Acquire); err != nil {
		return driver.Lease{}, err
	}
	l, err := f.Store.Acquire(ctx, r)
	if lost := call(ctx, f.After, Acquire); lost != nil {
		return driver.Lease{}, lost
	}
	return l, err
}

// Wait implements [driver.Waiter] if the underlying store does.
func (f *Faulty) Wait(ctx context.Context, r driver.Request, queued func()) (driver.Lease, error) {
	waiter, ok := f.Store.(driver.Waiter)
	if !ok {
		return driver.Lease{}, errors.ErrUnsupported
	}
	if err := call(ctx, f.Before, Wait); err != nil {
		return driver.Lease{Unanswered: !errors.Is(err, driver.ErrNotSent)}, err
	}
	l, err := waiter.Wait(ctx, r, queued)
	if lost := call(ctx, f.After, Wait); lost != nil {
		return driver.Lease{Unanswered: true}, lost
	}
	return l, err
}

// Renew implements [renewal.Renewer].
func (f *Faulty) Renew(ctx context.Context, batch []driver.Lease, out []renewal.Outcome) error {
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

// Release implements [driver.Store].
func (f *Faulty) Release(ctx context.Context, l driver.Lease) error {
	if err := call(ctx, f.Before, Release); err != nil {
		return err
	}
	err := f.Store.Release(ctx, l)
	if lost := call(ctx, f.After, Release); lost != nil {
		return lost
	}
	return err
}

// ReleaseAll implements [driver.BulkReleaser] if the underlying store does. It calls
// Before and After with Release, once per lease.
func (f *Faulty) ReleaseAll(ctx context.Context, batch []driver.Lease, out []error) error {
	bulk, ok := f.Store.(driver.BulkReleaser)
	if !ok {
		return errors.ErrUnsupported
	}
	if len(batch) == 0 {
		return bulk.ReleaseAll(ctx, nil, nil)
	}
	var sent []driver.Lease
	var at []int
	for i, l := range batch {
		if out[i] = call(ctx, f.Before, Release); out[i] == nil {
			sent, at = append(sent, l), append(at, i)
		}
	}
	answers := make([]error, len(sent))
	if err := bulk.ReleaseAll(ctx, sent, answers); err != nil {
		return err
	}
	for k, i := range at {
		out[i] = answers[k]
		if lost := call(ctx, f.After, Release); lost != nil {
			out[i] = lost
		}
	}
	return nil
}

// Inspect implements [driver.Inspector] if the underlying store does.
func (f *Faulty) Inspect(ctx context.Context, key string) (driver.Info, error) {
	inspector, ok := f.Store.(driver.Inspector)
	if !ok {
		return driver.Info{}, errors.ErrUnsupported
	}
	if err := call(ctx, f.Before, Inspect); err != nil {
		return driver.Info{}, err
	}
	info, err := inspector.Inspect(ctx, key)
	if lost := call(ctx, f.After, Inspect); lost != nil {
		return driver.Info{}, lost
	}
	return info, err
}

// ForceRelease implements [driver.Inspector] if the underlying store does.
func (f *Faulty) ForceRelease(ctx context.Context, key string) error {
	inspector, ok := f.Store.(driver.Inspector)
	if !ok {
		return errors.ErrUnsupported
	}
	if err := call(ctx, f.Before, ForceRelease); err != nil {
		return err
	}
	err := inspector.ForceRelease(ctx, key)
	if lost := call(ctx, f.After, ForceRelease); lost != nil {
		return lost
	}
	return err
}

// List implements [driver.Lister] if the underlying store does.
func (f *Faulty) List(ctx context.Context, prefix, cursor string) (keys []string, next string, err error) {
	lister, ok := f.Store.(driver.Lister)
	if !ok {
		return nil, "", errors.ErrUnsupported
	}
	if err := call(ctx, f.Before, List); err != nil {
		return nil, "", err
	}
	keys, next, err = lister.List(ctx, prefix, cursor)
	if lost := call(ctx, f.After, List); lost != nil {
		return nil, "", lost
	}
	return keys, next, err
}

// SetMetadata implements [driver.MetadataSetter] if the underlying store does.
func (f *Faulty) SetMetadata(ctx context.Context, l driver.Lease, metadata string) error {
	setter, ok := f.Store.(driver.MetadataSetter)
	if !ok {
		return errors.ErrUnsupported
	}
	if err := call(ctx, f.Before, SetMetadata); err != nil {
		return err
	}
	err := setter.SetMetadata(ctx, l, metadata)
	if lost := call(ctx, f.After, SetMetadata); lost != nil {
		return lost
	}
	return err
}

// Save implements [driver.Saver] if the underlying store does.
func (f *Faulty) Save(ctx context.Context, l driver.Lease, number uint64, data []byte, ttl time.Duration) error {
	saver, ok := f.Store.(driver.Saver)
	if !ok {
		return errors.ErrUnsupported
	}
	if err := call(ctx, f.Before, Save); err != nil {
		return err
	}
	err := saver.Save(ctx, l, number, data, ttl)
	if lost := call(ctx, f.After, Save); lost != nil {
		return lost
	}
	return err
}

// Forget implements [driver.Saver] if the underlying store does.
func (f *Faulty) Forget(ctx context.Context, key string) error {
	saver, ok := f.Store.(driver.Saver)
	if !ok {
		return errors.ErrUnsupported
	}
	if err := call(ctx, f.Before, Forget); err != nil {
		return err
	}
	err := saver.Forget(ctx, key)
	if lost := call(ctx, f.After, Forget); lost != nil {
		return lost
	}
	return err
}

// Describe implements [driver.Describer] with the description of the underlying store.
func (f *Faulty) Describe() driver.Description { return driver.Describe(f.Store) }

// Lane returns the lane of the underlying store, or 0 if that has no lanes.
func (f *Faulty) Lane(l driver.Lease) int {
	if laner, ok := f.Store.(renewal.Laner[driver.Lease]); ok {
		return laner.Lane(l)
	}
	return 0
}

// Export implements [driver.Exporter] if the underlying store does.
func (f *Faulty) Export(l driver.Lease) ([]byte, error) {
	if exporter, ok := f.Store.(driver.Exporter); ok {
		return exporter.Export(l)
	}
	return nil, errors.ErrUnsupported
}

// Import implements [driver.Exporter] if the underlying store does.
func (f *Faulty) Import(l driver.Lease, state []byte) (driver.Lease, error) {
	if exporter, ok := f.Store.(driver.Exporter); ok {
		return exporter.Import(l, state)
	}
	return driver.Lease{}, errors.ErrUnsupported
}

// Resume implements [driver.Resumer] if the underlying store does. It calls Before and After with
// Renew.
func (f *Faulty) Resume(ctx context.Context, l driver.Lease) (driver.Lease, error) {
	resumer, ok := f.Store.(driver.Resumer)
	if !ok {
		return driver.Lease{}, errors.ErrUnsupported
	}
	if err := call(ctx, f.Before, Renew); err != nil {
		return driver.Lease{}, err
	}
	resumed, err := resumer.Resume(ctx, l)
	if lost := call(ctx, f.After, Renew); lost != nil {
		return driver.Lease{}, lost
	}
	return resumed, err
}

// Close closes the underlying store if it can be closed.
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
