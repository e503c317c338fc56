// What the hooks receive about one call and the lock that it got.

package lock

import (
	"cmp"
	"context"
	"errors"
	"sync/atomic"
	"time"
)

// observation is a call of Lock or TryLock, and then the lock that it got, as the hooks see
// them. It is nil if there are no hooks. It must not refer to the handle or the client: the
// watchdog refers to it, and a dropped handle must become garbage.
type observation struct {
	hooks   *Hooks // nil: nothing is reported
	isMulti bool   // of a Multi, which reports for its members
	info    HookInfo
	ctx     context.Context // of the call
	began   time.Time
	waits   atomic.Bool // Waiting was called

	acquired time.Time
	off      func() bool // makes the end of the lease call no hook
}

// unobserved is the observation of a Multi without hooks: its members report nothing.
var unobserved = &observation{isMulti: true}

// onlyChecks makes the acquire of a lock of this package return nil, and no handle, after the checks
// that need no IO. The lock is neither acquired nor entered.
var onlyChecks = &observation{isMulti: true}

// ofMulti reports whether the call is one of a Multi.
func (o *observation) ofMulti() bool { return o != nil && o.isMulti }

// observe returns the observation of a call that begins now.
func (c *Client) observe(kind Kind) *observation {
	if !c.ok() || c.hooks == nil {
		return nil
	}
	return &observation{hooks: c.hooks, info: HookInfo{Kind: kind}, began: time.Now()}
}

// call makes the call f and reports its outcome.
func (o *observation) call(ctx context.Context, key string, f func(ctx context.Context) (*Held, error)) (*Held, error) {
	o.info.Key = key
	o.ctx = contextOf(ctx, o.hooks.Acquiring, o.info)
	held, err := f(o.ctx)
	if err != nil {
		o.refused(err)
		return nil, err
	}
	o.adopt(held)
	return held, nil
}

// contextOf returns the context for a call, from Acquiring or Releasing.
func contextOf(ctx context.Context, hook func(context.Context, HookInfo) context.Context, i HookInfo) context.Context {
	if hook != nil {
		return cmp.Or(hook(ctx, i), ctx)
	}
	return ctx
}

// waiting reports, once, that a Lock has to wait.
func (o *observation) waiting() {
	if o == nil || o.hooks == nil || o.hooks.Waiting == nil || !o.waits.CompareAndSwap(false, true) {
		return
	}
	i := o.info
	i.Waited = time.Since(o.began)
	o.hooks.Waiting(o.ctx, i)
}

// refused reports the error of a call.
func (o *observation) refused(err error) {
	if o.hooks.Refused == nil {
		return
	}
	i := o.info
	i.Waited, i.Err = time.Since(o.began), err
	switch {
	case errors.Is(err, ErrUnavailable):
		i.Outcome = OutcomeUnavailable
	case errors.As(err, new(waitedError)):
		i.Outcome = OutcomeWaitLimit
	case o.ctx.Err() != nil && (errors.Is(err, ErrNotAcquired) || errors.Is(err, causeOf(o.ctx))):
		i.Outcome = OutcomeCanceled
	case !errors.Is(err, ErrNotAcquired):
		i.Outcome = OutcomeError
	default:
		i.Outcome = OutcomeHeldByOther
	}
	o.hooks.Refused(o.ctx, i)
}

// adopt reports that a lock was acquired, and has its end reported.
func (o *observation) adopt(held *Held) {
	o.acquired = time.Now()
	o.info.Token = held.Token()
	o.info.Waited = o.acquired.Sub(o.began)
	if hook := o.hooks.Acquired; hook != nil {
		i := o.info
		i.Outcome = OutcomeAcquired
		returning(func() { hook(o.ctx, i) }, func() { _ = held.giveBack(o.ctx) })
	}
	if o.hooks.Releasing == nil && o.hooks.Released == nil && o.hooks.Lost == nil {
		return
	}
	switch h := held.handle.(type) {
	case *heldLease:
		h.observed = o
	case *multiHandle:
		h.observed = o
	default:
		return
	}
	o.watch(held.handle)
}

// watch has the end of a lock reported, on a goroutine of its own.
func (o *observation) watch(h handle) {
	o.off = h.afterFunc(func(err error) { o.ended(context.WithoutCancel(o.ctx), err, err) })
}

// detach is called before Unlock ends the lock. It reports whether the caller must call
// ended afterwards. Otherwise there are no hooks, or the lock has ended before.
func (o *observation) detach() bool { return o != nil && o.off() }

// releasing reports that Unlock is about to end the lock, and returns the context for that. If
// the hook panics, releasing calls release.
func (o *observation) releasing(ctx context.Context, release func()) context.Context {
	i := o.info
	i.Held = time.Since(o.acquired)
	returning(func() { ctx = contextOf(ctx, o.hooks.Releasing, i) }, release)
	return ctx
}

// returning calls f, and then otherwise if f does not return, because it panics or ends the goroutine.
func returning(f, otherwise func()) {
	returned := false
	defer func() {
		if !returned {
			otherwise()
		}
	}()
	f()
	returned = true
}

// ended reports the end of a lock. state is why its lease has ended, and err is the loss or the
// error of Unlock.
func (o *observation) ended(ctx context.Context, state, err error) {
	i, hook := o.info, o.hooks.Released
	i.Held, i.Err = time.Since(o.acquired), err
	switch end := endOf(err); {
	case end == endLost:
		i.Outcome, hook = OutcomeLost, o.hooks.Lost
	case endOf(cmp.Or(state, err)) == endClosed:
		i.Outcome = OutcomeClosed
	case end == endDetached:
		i.Outcome, i.Err = OutcomeDetached, nil
	case end == endUnlocked: // by Downgrade, or by Unlock of one lock of a Multi
		i.Outcome, i.Err = OutcomeUnlocked, nil
	default:
		i.Outcome = OutcomeUnlocked
	}
	if hook != nil {
		hook(ctx, i)
	}
}

// downgraded reports the end of a writer, after detach has returned true. err is the loss or
// another error of Downgrade, or nil.
func (o *observation) downgraded(ctx context.Context, reader *Held, err error) {
	returning(func() { o.ended(ctx, err, err) }, func() {
		if reader != nil { // nobody gets it
			_ = reader.giveBack(ctx)
		}
	})
}

// observe returns the observation of a call of a Multi.
func (m *multi) observe() *observation {
	for _, l := range m.parts() {
		if c, _ := requestOf(l); c != nil {
			if o := c.observe(KindMulti); o != nil {
				o.isMulti = true
				return o
			}
			break
		}
	}
	return unobserved
}

// observedLocker is implemented by the locks of this package. A Multi acquires its members
// with its own observation.
type observedLocker interface {
	acquire(ctx context.Context, wait bool, o *observation) (*Held, error)
}

// lockMember is Lock, or TryLock, of a member of a Multi or the lock of a WaitAtMost.
func lockMember(ctx context.Context, l Locker, wait bool, o *observation) (*Held, error) {
	switch member, ok := l.(observedLocker); {
	case ok:
		return member.acquire(ctx, wait, o)
	case o == onlyChecks:
		return nil, nil
	case wait:
		return l.Lock(ctx)
	default:
		return l.TryLock(ctx)
	}
}
