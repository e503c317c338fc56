// This file is about Observe, which wraps a store to observe its calls.

package driver

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/renewal"
)

// Op describes a call of a store.
type Op struct {
	// Name is "acquire", "wait", "renew", "release", "inspect", "list", "force release", "set metadata",
	// "save" or "forget".
	Name  string
	Key   string // of the lock; "" for a call about several leases; the prefix of a "list"
	Count int    // leases in the call; only "renew" and "release" may have more than one, and "list" has none
}

// errNotReturned is the outcome of a call that panicked or ended its goroutine.
var errNotReturned = errors.New("lock: the store has not returned from the call")

// Observe returns a store that calls observe before each call of the given store. The
// result of observe is the context for that call, with the values of a span for example,
// and a function that is called with the error of the call when it has returned. Either
// may be nil.
//
// A "renew" is one call for a batch of leases, of which Op.Count is the number. Its error
// is nil if the store has answered, even if leases are lost. The Resume of a Resumer is a "renew"
// too, with the error ErrNotHeld for a lease that is lost. A "release" of several
// leases has the first error of a lease. A "wait" lasts until the lock is granted. Many
// errors are not faults of the store: *HeldError, ErrNotHeld and the causes of contexts.
//
// Package lock holds no lock during the calls, so observe may use the client. Both
// functions are called concurrently. They delay the call, and should not block.
//
// The observed store has all optional interfaces of this package. If the given store lacks
// one, its methods behave as the package documentation says, and nothing is observed.
// Methods that do no IO, and those that close the store, are not observed either. Observe
// returns the store itself if the store or observe is nil.
func Observe(store Store, observe func(ctx context.Context, op Op) (context.Context, func(error))) Store {
	if observe == nil || basic.IsNil(store) {
		return store
	}
	o := &observedStore{store: store, observe: observe}
	o.waiter, _ = store.(Waiter)
	o.bulk, _ = store.(BulkReleaser)
	o.inspector, _ = store.(Inspector)
	o.lister, _ = store.(Lister)
	o.setter, _ = store.(MetadataSetter)
	o.saver, _ = store.(Saver)
	return o
}

// observedStore implements Store and all optional interfaces.
type observedStore struct {
	store   Store
	observe func(context.Context, Op) (context.Context, func(error))

	waiter    Waiter         // the store, nil if it is none
	bulk      BulkReleaser   // the same
	inspector Inspector      // the same
	lister    Lister         // the same
	setter    MetadataSetter // the same
	saver     Saver          // the same
}

// call calls f and has it observed.
func (o *observedStore) call(ctx context.Context, op Op, f func(ctx context.Context) error) error {
	err := errNotReturned
	observed, end := o.observe(ctx, op)
	if observed == nil {
		observed = ctx
	}
	if end != nil {
		defer func() { end(err) }()
	}
	err = f(observed)
	return err
}

func (o *observedStore) Acquire(ctx context.Context, r Request) (l Lease, err error) {
	err = o.call(ctx, Op{"acquire", r.Key, 1}, func(ctx context.Context) error {
		l, err = o.store.Acquire(ctx, r)
		return err
	})
	return l, err
}

func (o *observedStore) Wait(ctx context.Context, r Request, queued func()) (l Lease, err error) {
	if o.waiter == nil {
		return Lease{}, errors.ErrUnsupported
	}
	err = o.call(ctx, Op{"wait", r.Key, 1}, func(ctx context.Context) error {
		l, err = o.waiter.Wait(ctx, r, queued)
		return err
	})
	return l, err
}

func (o *observedStore) Renew(ctx context.Context, batch []Lease, out []renewal.Outcome) error {
	return o.call(ctx, opFor("renew", batch), func(ctx context.Context) error {
		return o.store.Renew(ctx, batch, out)
	})
}

func (o *observedStore) ReportEvents(report func(renewal.Event)) {
	if source, ok := o.store.(EventSource); ok {
		source.ReportEvents(report)
	}
}

func (o *observedStore) Release(ctx context.Context, l Lease) error {
	return o.call(ctx, Op{"release", l.Key, 1}, func(ctx context.Context) error {
		return o.store.Release(ctx, l)
	})
}

func (o *observedStore) ReleaseAll(ctx context.Context, batch []Lease, out []error) (err error) {
	switch {
	case o.bulk == nil:
		return errors.ErrUnsupported
	case len(batch) == 0: // the client asks whether the store supports it
		return o.bulk.ReleaseAll(ctx, batch, out)
	}
	_ = o.call(ctx, opFor("release", batch), func(ctx context.Context) error {
		if err = o.bulk.ReleaseAll(ctx, batch, out); err != nil {
			return err
		}
		return first(out)
	})
	return err
}

func (o *observedStore) Inspect(ctx context.Context, key string) (info Info, err error) {
	if o.inspector == nil {
		return Info{}, errors.ErrUnsupported
	}
	err = o.call(ctx, Op{"inspect", key, 1}, func(ctx context.Context) error {
		info, err = o.inspector.Inspect(ctx, key)
		return err
	})
	return info, err
}

func (o *observedStore) List(ctx context.Context, prefix, cursor string) (keys []string, next string, err error) {
	if o.lister == nil {
		return nil, "", errors.ErrUnsupported
	}
	err = o.call(ctx, Op{"list", prefix, 0}, func(ctx context.Context) error {
		keys, next, err = o.lister.List(ctx, prefix, cursor)
		return err
	})
	return keys, next, err
}

func (o *observedStore) ForceRelease(ctx context.Context, key string) error {
	if o.inspector == nil {
		return errors.ErrUnsupported
	}
	return o.call(ctx, Op{"force release", key, 1}, func(ctx context.Context) error {
		return o.inspector.ForceRelease(ctx, key)
	})
}

func (o *observedStore) SetMetadata(ctx context.Context, l Lease, metadata string) error {
	if o.setter == nil {
		return errors.ErrUnsupported
	}
	return o.call(ctx, Op{"set metadata", l.Key, 1}, func(ctx context.Context) error {
		return o.setter.SetMetadata(ctx, l, metadata)
	})
}

func (o *observedStore) Save(ctx context.Context, l Lease, number uint64, data []byte, ttl time.Duration) error {
	if o.saver == nil {
		return errors.ErrUnsupported
	}
	return o.call(ctx, Op{"save", l.Key, 1}, func(ctx context.Context) error {
		return o.saver.Save(ctx, l, number, data, ttl)
	})
}

func (o *observedStore) Forget(ctx context.Context, key string) error {
	if o.saver == nil {
		return errors.ErrUnsupported
	}
	return o.call(ctx, Op{"forget", key, 1}, func(ctx context.Context) error {
		return o.saver.Forget(ctx, key)
	})
}

func (o *observedStore) Export(l Lease) ([]byte, error) {
	if exporter, ok := o.store.(Exporter); ok {
		return exporter.Export(l)
	}
	return nil, errors.ErrUnsupported
}

func (o *observedStore) Import(l Lease, state []byte) (Lease, error) {
	if exporter, ok := o.store.(Exporter); ok {
		return exporter.Import(l, state)
	}
	return Lease{}, errors.ErrUnsupported
}

func (o *observedStore) Resume(ctx context.Context, l Lease) (resumed Lease, err error) {
	resumer, ok := o.store.(Resumer)
	if !ok {
		return Lease{}, errors.ErrUnsupported
	}
	err = o.call(ctx, Op{"renew", l.Key, 1}, func(ctx context.Context) error {
		resumed, err = resumer.Resume(ctx, l)
		return err
	})
	return resumed, err
}

func (o *observedStore) Describe() Description { return Describe(o.store) }

func (o *observedStore) Lane(l Lease) int {
	if laner, ok := o.store.(renewal.Laner[Lease]); ok {
		return laner.Lane(l)
	}
	return 0
}

func (o *observedStore) Close() error {
	if closer, ok := o.store.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}

func (o *observedStore) Shutdown(ctx context.Context) error {
	if s, ok := o.store.(interface{ Shutdown(context.Context) error }); ok {
		return s.Shutdown(ctx)
	}
	return o.Close()
}

// opFor returns the Op of a call for a batch.
func opFor(name string, batch []Lease) Op {
	op := Op{Name: name, Count: len(batch)}
	if len(batch) == 1 {
		op.Key = batch[0].Key
	}
	return op
}

// first returns the first error, nil if there is none.
func first(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}
