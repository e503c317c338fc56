// Wrap, which puts a function around the calls of a store.

package driver

import (
	"context"
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
// around is not called for methods that do no IO and for Shutdown. Embed the result to replace them. A nil
// around passes each call on.
func Wrap(store Store, around func(ctx context.Context, c *Call, next func(ctx context.Context) error) error) Store {
	if around == nil {
		around = func(ctx context.Context, _ *Call, next func(context.Context) error) error { return next(ctx) }
	}
	return &wrapper{Store: store, around: around}
}

type wrapper struct {
	Store
	around func(context.Context, *Call, func(context.Context) error) error
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
	c := &Call{Name: "wait", Key: r.Key, Request: r}
	err := w.around(ctx, c, func(ctx context.Context) (err error) {
		c.Granted, err = w.Store.Wait(ctx, c.Request, queued)
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
	c := &Call{Name: "release", Key: onlyKey(batch), Leases: batch, Errors: out}
	return w.around(ctx, c, func(ctx context.Context) error { return w.Store.ReleaseAll(ctx, c.Leases, c.Errors) })
}

func (w *wrapper) Inspect(ctx context.Context, key string) (info Info, err error) {
	err = w.around(ctx, &Call{Name: "inspect", Key: key}, func(ctx context.Context) (err error) {
		info, err = w.Store.Inspect(ctx, key)
		return err
	})
	if err != nil {
		return Info{}, err
	}
	return info, nil
}

func (w *wrapper) ForceRelease(ctx context.Context, key string) error {
	return w.around(ctx, &Call{Name: "force release", Key: key}, func(ctx context.Context) error { return w.Store.ForceRelease(ctx, key) })
}

func (w *wrapper) List(ctx context.Context, prefix, cursor string) (keys []string, next string, err error) {
	err = w.around(ctx, &Call{Name: "list", Key: prefix}, func(ctx context.Context) (err error) {
		keys, next, err = w.Store.List(ctx, prefix, cursor)
		return err
	})
	if err != nil {
		return nil, "", err
	}
	return keys, next, nil
}

func (w *wrapper) SetMetadata(ctx context.Context, l Lease, metadata string) error {
	c := &Call{Name: "set metadata", Key: l.Key, Leases: []Lease{l}}
	return w.around(ctx, c, func(ctx context.Context) error { return w.Store.SetMetadata(ctx, c.Leases[0], metadata) })
}

func (w *wrapper) Save(ctx context.Context, l Lease, number uint64, data []byte, ttl time.Duration) error {
	c := &Call{Name: "save", Key: l.Key, Leases: []Lease{l}}
	return w.around(ctx, c, func(ctx context.Context) error { return w.Store.Save(ctx, c.Leases[0], number, data, ttl) })
}

func (w *wrapper) Forget(ctx context.Context, key string) error {
	return w.around(ctx, &Call{Name: "forget", Key: key}, func(ctx context.Context) error { return w.Store.Forget(ctx, key) })
}

// onlyKey returns the key of the lease of a batch, or "" if it has several.
func onlyKey(batch []Lease) string {
	if len(batch) == 1 {
		return batch[0].Key
	}
	return ""
}
