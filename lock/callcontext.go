// This file is about the context of a call of the store.

package lock

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// callContext is the context of a call of the store. It ends when the call returns, and
// before that with the caller's context or with the client; or, if it has a limit, only
// after that time. It has the caller's values but a cause of its own, an *endedError or a
// noAnswerError. The caller's cause may be any error, such as the *HeldError of another
// lock, and a store that returned it would seem to answer. Only this package adds the
// caller's cause to an error, after the store has returned.
//
// Most calls return before anything ends. So the context does nothing, and needs no memory,
// until the store asks to be told of the end. Package context would need ten objects.
type callContext struct {
	caller context.Context
	life   *lifetime     // of the client; nil if the call does not end with it
	limit  time.Duration // 0: none
	until  time.Time     // when the limit is reached

	end atomic.Pointer[callEnd] // nil until the context ends

	mu       sync.Mutex // guards all below
	attached bool       // the context is told when it must end
	detach   func() bool
	done     chan struct{} // nil until Done is called
	notify   func()        // of Notify
	funcs    map[*endFunc]struct{}
}

// callEnd is why a call has ended: a context with that error and cause.
type callEnd struct{ context.Context }

// endFunc is a function that was passed to AfterFunc.
type endFunc struct{ f func() }

var (
	endCallerCanceled = newCallEnd(errCallerCanceled)
	endCallerLate     = newCallEnd(errCallerLate)
	endClientClosing  = newCallEnd(errClientClosing)
	endReturned       = newCallEnd(nil)
)

func newCallEnd(cause error) *callEnd {
	ctx, cancel := context.WithCancelCause(context.Background())
	cancel(cause)
	return &callEnd{ctx}
}

// newCallContext returns the context for a call of the store. The caller must call the
// returned function when the call has returned.
func newCallContext(caller context.Context, life *lifetime) (context.Context, func()) {
	c := &callContext{caller: caller, life: life}
	return c, func() { c.finish(endReturned) }
}

// newLimitedContext returns a context that ends after a limit, but neither with the caller's
// context nor with the client. The caller must call finish.
func newLimitedContext(caller context.Context, limit time.Duration) *callContext {
	return &callContext{caller: caller, limit: limit, until: time.Now().Add(limit)}
}

// Err implements context.Context.
func (c *callContext) Err() error {
	if c.end.Load() == nil {
		end := c.reason()
		if end == nil {
			return nil
		}
		c.finish(end)
	}
	return c.end.Load().Err()
}

// reason returns why the context must end now, nil if it must not.
func (c *callContext) reason() *callEnd {
	switch {
	case c.limit > 0:
		if time.Now().Before(c.until) {
			return nil
		}
		return c.noAnswer()
	case c.life != nil && c.life.over.Load():
		return endClientClosing
	case c.caller.Err() == nil:
		return nil
	case errors.Is(c.caller.Err(), context.DeadlineExceeded):
		return endCallerLate
	}
	return endCallerCanceled
}

func (c *callContext) noAnswer() *callEnd {
	ctx, cancel := context.WithDeadlineCause(context.Background(), time.Time{}, noAnswerError(c.limit))
	cancel()
	return &callEnd{ctx}
}

// Deadline implements context.Context.
func (c *callContext) Deadline() (deadline time.Time, ok bool) {
	if c.limit > 0 {
		return c.until, true
	}
	return c.caller.Deadline()
}

// Value implements context.Context. [context.Cause] uses it: once the context has ended, it
// must find the cause of this context and not that of the caller's.
func (c *callContext) Value(key any) any {
	if end := c.end.Load(); end != nil {
		if v := end.Value(key); v != nil {
			return v
		}
	}
	return c.caller.Value(key)
}

// Done implements context.Context.
func (c *callContext) Done() <-chan struct{} {
	c.mu.Lock()
	if c.done == nil {
		c.done = make(chan struct{})
		if c.end.Load() != nil {
			close(c.done)
		}
	}
	done := c.done
	c.attach()
	c.mu.Unlock()
	_ = c.Err() // what ends it may have come before attach
	return done
}

// AfterFunc is called by package context for contexts that are made from this one.
func (c *callContext) AfterFunc(f func()) (stop func() bool) {
	e := &endFunc{f}
	c.mu.Lock()
	if c.end.Load() != nil {
		c.mu.Unlock()
		go f()
		return func() bool { return false }
	}
	if c.funcs == nil {
		c.funcs = make(map[*endFunc]struct{})
	}
	c.funcs[e] = struct{}{}
	c.attach()
	c.mu.Unlock()
	_ = c.Err()
	return func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		_, waiting := c.funcs[e]
		delete(c.funcs, e)
		return waiting
	}
}

// Notify calls f in its own goroutine when the context ends, unless that is at its Deadline.
// It returns false, and does not call f, if another function is waiting for that. A store
// that can bound a call by the Deadline needs nothing else, and Notify costs less than
// [context.AfterFunc].
func (c *callContext) Notify(f func()) bool {
	c.mu.Lock()
	if c.notify != nil {
		c.mu.Unlock()
		return false
	}
	if c.end.Load() != nil {
		c.mu.Unlock()
		go f()
		return true
	}
	c.notify = f
	if c.limit == 0 {
		c.attach()
	}
	c.mu.Unlock()
	_ = c.Err()
	return true
}

// StopNotify undoes Notify. It returns false if f was called before.
func (c *callContext) StopNotify() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	waiting := c.notify != nil
	c.notify = nil
	return waiting
}

// attach has the context told when it must end. It is called with mu held.
func (c *callContext) attach() {
	if c.attached || c.end.Load() != nil {
		return
	}
	c.attached = true
	if c.limit > 0 {
		c.detach = time.AfterFunc(time.Until(c.until), func() { c.finish(c.noAnswer()) }).Stop
		return
	}
	if c.caller.Done() != nil {
		c.detach = context.AfterFunc(c.caller, func() { c.finish(cmp.Or(c.reason(), endCallerCanceled)) })
	}
	if c.life != nil {
		c.life.add(c)
	}
}

// finish ends the context, unless it has ended.
func (c *callContext) finish(end *callEnd) {
	c.mu.Lock()
	if c.end.Load() != nil {
		c.mu.Unlock()
		return
	}
	c.end.Store(end)
	if c.done != nil {
		close(c.done)
	}
	attached, detach, notify, funcs := c.attached, c.detach, c.notify, c.funcs
	c.detach, c.notify, c.funcs = nil, nil, nil
	c.mu.Unlock()
	if detach != nil {
		detach()
	}
	if attached && c.life != nil {
		c.life.remove(c)
	}
	if notify != nil {
		go notify()
	}
	for e := range funcs {
		go e.f()
	}
}

// lifetime ends when Close of a client begins, and ends the contexts of its calls.
type lifetime struct {
	over atomic.Bool

	mu    sync.Mutex
	calls map[*callContext]struct{} // those that must be told
}

func (l *lifetime) add(c *callContext) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls == nil {
		l.calls = make(map[*callContext]struct{})
	}
	l.calls[c] = struct{}{}
}

func (l *lifetime) remove(c *callContext) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.calls, c)
}

// end ends the lifetime.
func (l *lifetime) end() {
	l.over.Store(true)
	l.mu.Lock()
	calls := slices.Collect(maps.Keys(l.calls))
	l.mu.Unlock()
	for _, c := range calls {
		c.finish(endClientClosing)
	}
}
