// Wrap, which puts a function around the calls of a store.

package driver

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/leasewheel/leasewheel/renewal"
)

// Call is a call of a store that [Wrap] has intercepted. Its arguments may be changed before the call
// is executed, and its results after that.
type Call struct {
	// Name is "acquire", "wait", "renew", "release", "inspect", "list", "force release", "set metadata",
	// "save" or "forget".
	Name string
	Key  string // of the lock; "" for a call about several leases; the prefix of a "list"

	Request  Request           // of an "acquire" or a "wait"
	Leases   []Lease           // of a "renew", a "release", a "set metadata" or a "save"
	Granted  Lease             // the result of an "acquire", or a "wait"
	Outcomes []renewal.Outcome // the results of a "renew"
	Errors   []error           // the results of a ReleaseAll, which returns the error of the function; nil for a Release
}

// Complete is a Store with all optional interfaces of this package.
type Complete interface {
	Store
	Waiter
	BulkReleaser
	Describer
	Inspector
	Lister
	MetadataSetter
	Saver
	Importer
	EventSource
	renewal.Laner[Lease]
	io.Closer
	Shutdown(ctx context.Context) error
}

// Wrap returns a store that calls around in place of each call of the given store. The function next
// executes the call, with its own ctx or one that around has made of it, for a span for example. What around
// returns is the error of the call. If around does not call next, the request was lost. If it returns an error
// after next has returned nil, the answer was lost; it must then remove the results that must not be seen.
// With an error, an "inspect" and a "list" have no results.
//
//	driver.Wrap(store, func(ctx context.Context, c *driver.Call, next func(context.Context) error) error {
//		ctx, span := tracer.Start(ctx, "lock "+c.Name)
//		defer span.End()
//		return next(ctx)
//	})
//
// The error of a "renew" is nil if the store has answered, even if leases are lost. A "wait" lasts until
// the lock is granted. Many errors are no faults of the store: *HeldError, ErrNotHeld and the causes of
// contexts. Package lock holds no lock during the calls, so around may use the client. It is called
// concurrently, delays the call, and should not block.
//
// If the given store lacks an optional interface, its methods behave as the package documentation says,
// and around is not called. It is not called either for methods that do no IO and for those that close
// the store. Embed the result to replace them. A nil around passes each call on.
func Wrap(store Store, around func(ctx context.Context, c *Call, next func(ctx context.Context) error) error) Complete {
	if around == nil {
		around = func(ctx context.Context, _ *Call, next func(context.Context) error) error { return next(ctx) }
	}
	w := &wrapper{Store: store, around: around}
	w.waiter, _ = store.(Waiter)
	w.bulk, _ = store.(BulkReleaser)
	w.inspector, _ = store.(Inspector)
	w.lister, _ = store.(Lister)
	w.setter, _ = store.(MetadataSetter)
	w.saver, _ = store.(Saver)
	w.importer, _ = store.(Importer)
	return w
}

type wrapper struct {
	Store
	around func(context.Context, *Call, func(context.Context) error) error

	waiter    Waiter         // the store, nil if it is none
	bulk      BulkReleaser   // the same
	inspector Inspector      // the same
	lister    Lister         // the same
	setter    MetadataSetter // the same
	saver     Saver          // the same
	importer  Importer       // the same
}

func (w *wrapper) Acquire(ctx context.Context, r Request) (Lease, error) {
	c := &Call{Name: "acquire", Key: r.Key, Request: r}
	err := w.around(ctx, c, func(ctx context.Context) (err error) {
		c.Granted, err = w.Store.Acquire(ctx, c.Request)
		return err
	})
	return c.Granted, err
}

func (w *wrapper) Wait(ctx context.Context, r Request, queued func()) (Lease, error) {
	if w.waiter == nil {
		return Lease{}, errors.ErrUnsupported
	}
	c := &Call{Name: "wait", Key: r.Key, Request: r}
	err := w.around(ctx, c, func(ctx context.Context) (err error) {
		c.Granted, err = w.waiter.Wait(ctx, c.Request, queued)
		return err
	})
	return c.Granted, err
}

func (w *wrapper) Renew(ctx context.Context, batch []Lease, out []renewal.Outcome) error {
	c := &Call{Name: "renew", Key: onlyKey(batch), Leases: batch, Outcomes: out}
	return w.around(ctx, c, func(ctx context.Context) error { return w.Store.Renew(ctx, c.Leases, c.Outcomes) })
}

func (w *wrapper) Release(ctx context.Context, l Lease) error {
	c := &Call{Name: "release", Key: l.Key, Leases: []Lease{l}}
	return w.around(ctx, c, func(ctx context.Context) error { return w.Store.Release(ctx, c.Leases[0]) })
}

func (w *wrapper) ReleaseAll(ctx context.Context, batch []Lease, out []error) error {
	switch {
	case w.bulk == nil:
		return errors.ErrUnsupported
	case len(batch) == 0: // the client asks whether the store supports it
		return w.bulk.ReleaseAll(ctx, batch, out)
	}
	c := &Call{Name: "release", Key: onlyKey(batch), Leases: batch, Errors: out}
	return w.around(ctx, c, func(ctx context.Context) error { return w.bulk.ReleaseAll(ctx, c.Leases, c.Errors) })
}

func (w *wrapper) Inspect(ctx context.Context, key string) (info Info, err error) {
	if w.inspector == nil {
		return Info{}, errors.ErrUnsupported
	}
	err = w.around(ctx, &Call{Name: "inspect", Key: key}, func(ctx context.Context) (err error) {
		info, err = w.inspector.Inspect(ctx, key)
		return err
	})
	if err != nil {
		return Info{}, err
	}
	return info, nil
}

func (w *wrapper) ForceRelease(ctx context.Context, key string) error {
	if w.inspector == nil {
		return errors.ErrUnsupported
	}
	return w.around(ctx, &Call{Name: "force release", Key: key}, func(ctx context.Context) error { return w.inspector.ForceRelease(ctx, key) })
}

func (w *wrapper) List(ctx context.Context, prefix, cursor string) (keys []string, next string, err error) {
	if w.lister == nil {
		return nil, "", errors.ErrUnsupported
	}
	err = w.around(ctx, &Call{Name: "list", Key: prefix}, func(ctx context.Context) (err error) {
		keys, next, err = w.lister.List(ctx, prefix, cursor)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	return keys, next, nil
}

func (w *wrapper) SetMetadata(ctx context.Context, l Lease, metadata string) error {
	if w.setter == nil {
		return errors.ErrUnsupported
	}
	c := &Call{Name: "set metadata", Key: l.Key, Leases: []Lease{l}}
	return w.around(ctx, c, func(ctx context.Context) error { return w.setter.SetMetadata(ctx, c.Leases[0], metadata) })
}

func (w *wrapper) Save(ctx context.Context, l Lease, number uint64, data []byte, ttl time.Duration) error {
	if w.saver == nil {
		return errors.ErrUnsupported
	}
	c := &Call{Name: "save", Key: l.Key, Leases: []Lease{l}}
	return w.around(ctx, c, func(ctx context.Context) error { return w.saver.Save(ctx, c.Leases[0], number, data, ttl) })
}

func (w *wrapper) Forget(ctx context.Context, key string) error {
	if w.saver == nil {
		return errors.ErrUnsupported
	}
	return w.around(ctx, &Call{Name: "forget", Key: key}, func(ctx context.Context) error { return w.saver.Forget(ctx, key) })
}

func (w *wrapper) Import(l Lease) (Lease, error) {
	if w.importer == nil {
		return Lease{}, errors.ErrUnsupported
	}
	return w.importer.Import(l)
}

func (w *wrapper) Describe() Description { return Describe(w.Store) }

func (w *wrapper) ReportEvents(report func(renewal.Event)) {
	if source, ok := w.Store.(EventSource); ok {
		source.ReportEvents(report)
	}
}

func (w *wrapper) Lane(l Lease) int {
	if laner, ok := w.Store.(renewal.Laner[Lease]); ok {
		return laner.Lane(l)
	}
	return 0
}

func (w *wrapper) Close() error {
	if closer, ok := w.Store.(io.Closer); ok {
		return closer.Close()
	}
	return nil
}

func (w *wrapper) Shutdown(ctx context.Context) error {
	if s, ok := w.Store.(interface{ Shutdown(context.Context) error }); ok {
		return s.Shutdown(ctx)
	}
	return w.Close()
}

// onlyKey returns the key of the lease of a batch, or "" if it has several.
func onlyKey(batch []Lease) string {
	if len(batch) == 1 {
		return batch[0].Key
	}
	return ""
}
