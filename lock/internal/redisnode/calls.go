// Calls of a client, which end with it.

package redisnode

import (
	"cmp"
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// ErrClosed is the error of the calls that run when [Calls.Cancel] is called, and of all later calls.
var ErrClosed = driver.ErrStoreClosed

// ErrNilContext is the error of a call with a nil ctx.
var ErrNilContext = errors.New("the context is nil")

// lateError is a timeout that the caller did not set. For example, package net reports a
// slow dial as context.DeadlineExceeded.
type lateError struct{ error }

// Unwrap makes it match os.ErrDeadlineExceeded.
func (lateError) Unwrap() error { return os.ErrDeadlineExceeded }

// Calls counts the running calls of a client, which may have many nodes. After Cancel it refuses new ones. Its
// methods are safe for concurrent use. Wait blocks, and Reason may block for a second.
type Calls struct {
	ctx    context.Context // ends with the client
	end    context.CancelFunc
	report atomic.Pointer[func(renewal.Event)] // nil: nobody is notified

	ticks atomic.Bool                   // the timer runs; changes with mu held
	next  atomic.Pointer[chan struct{}] // closed at the next tick

	mu       sync.Mutex // guards all below, and orders running.Add before running.Wait
	running  sync.WaitGroup
	lanes    map[*lane]struct{} // of all nodes
	timer    *time.Timer        // calls tick
	redialAt time.Time          // when the next standing connection may dial
}

// tickTime is the time between two ticks, from which on lanes follow the ctx and the time of their requests, and
// requests that wait for a lane follow theirs. From the beginning, as for a request with less time than that, it costs six
// objects, a deadline and a timer. Most requests have their answer before a tick.
const tickTime = 10 * time.Millisecond

// NewCalls returns the Calls of a client.
func NewCalls() *Calls {
	ctx, end := context.WithCancel(context.Background())
	cs := &Calls{ctx: ctx, end: end, lanes: make(map[*lane]struct{})}
	cs.timer = time.AfterFunc(time.Hour, cs.tick)
	cs.timer.Stop()
	next := make(chan struct{})
	cs.next.Store(&next)
	return cs
}

// nextTick returns a channel that is closed at the next tick, which comes within tickTime.
func (cs *Calls) nextTick() <-chan struct{} {
	next := *cs.next.Load()
	if !cs.ticks.Load() { // ticks end when lanes get no requests
		cs.mu.Lock()
		if !cs.ticks.Swap(true) {
			cs.timer.Reset(tickTime)
		}
		cs.mu.Unlock()
	}
	return next
}

// tick makes the lanes follow each request that is running.
func (cs *Calls) tick() {
	var due []*lane
	cs.mu.Lock()
	cs.ticks.Store(false) // a request that begins from now on waits for mu in nextTick, or is seen
	next := make(chan struct{})
	close(*cs.next.Swap(&next))
	more := false
	for l := range cs.lanes {
		running, fresh := l.unfollowed()
		if running {
			due = append(due, l)
		}
		more = more || fresh
	}
	if more {
		cs.ticks.Store(true)
		cs.timer.Reset(tickTime)
	}
	cs.mu.Unlock()
	for _, l := range due {
		l.follow()
	}
}

// Cancel makes all running and later calls return ErrClosed. It does not block. It reports
// whether this is the first call of Cancel.
func (cs *Calls) Cancel() bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	first := cs.ctx.Err() == nil
	for l := range cs.lanes {
		l.close(ErrClosed)
	}
	clear(cs.lanes)
	cs.end() // after that, because ctx ends dials too, with another error
	return first
}

// add makes Cancel close lanes. After Cancel it closes them at once.
func (cs *Calls) add(all []*lane) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, l := range all {
		if cs.lanes[l] = struct{}{}; cs.ctx.Err() != nil {
			l.close(ErrClosed)
		}
	}
}

// remove undoes add.
func (cs *Calls) remove(all []*lane) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for _, l := range all {
		delete(cs.lanes, l)
	}
}

// Begin returns an error if ctx is nil or has ended, or if the client is closed. Otherwise the caller
// must call End, and Wait waits for that.
func (cs *Calls) Begin(ctx context.Context) error {
	if ctx == nil {
		return ErrNilContext
	}
	ended := ctx.Err() // without mu, because the ctx may be the user's
	if ended != nil {
		ended = cmp.Or(context.Cause(ctx), ended)
	}
	cs.mu.Lock()
	defer cs.mu.Unlock()
	switch {
	case cs.ctx.Err() != nil:
		return ErrClosed
	case ended != nil:
		return ended
	}
	cs.running.Add(1)
	return nil
}

// End ends what a successful Begin has begun.
func (cs *Calls) End() { cs.running.Done() }

// Go runs f on a goroutine that Wait waits for. The caller has called Begin, and not yet End.
func (cs *Calls) Go(f func()) { cs.running.Go(f) }

// Wait waits for all goroutines of the client. After Close they end soon, unless a function
// of the user's redis.Options does not return when its ctx ends.
func (cs *Calls) Wait() { cs.running.Wait() }

// Context returns a context that ends with Cancel.
func (cs *Calls) Context() context.Context { return cs.ctx }

// lateEnd is the longest wait for a context to end after its deadline has passed.
const lateEnd = time.Second

// Reason returns the error that a failed call reports for err. It is ErrClosed after Cancel, and the cause of
// ctx if ctx has ended. Another timeout matches os.ErrDeadlineExceeded. Reason waits up to a second for a ctx
// whose deadline has passed.
func (cs *Calls) Reason(ctx context.Context, err error) error {
	if cs.ctx.Err() != nil {
		return ErrClosed
	}
	if deadline, ok := ctx.Deadline(); ok && !time.Now().Before(deadline) {
		_ = basic.Sleep(ctx, lateEnd) // the timer of ctx is about to fire; a custom context may have none
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return lateError{err}
	}
	return err
}
