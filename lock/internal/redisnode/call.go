// This file is about a request of go-redis: its deadline, its cancellation, and the probe for dead connections.

package redisnode

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// How a call ends. go-redis waits for a place in its pool and for a dial until the ctx ends, and gives
// the deadline of the ctx to the connection, but it does not notice that a ctx is cancelled while it
// waits for a reply. Each request therefore has a deadline that no other request of the client has.
// A conn finds its request by the deadline that go-redis sets, and when the ctx of the request ends,
// sets the deadline of the conn to the past. go-redis then returns on the goroutine of the caller,
// and closes the connection. Functions of the user run on goroutines of their own; see CallUser.
//
//	what ends a request           how
//	reply, network error          go-redis returns
//	ctx, the bound, Calls.Cancel   interrupt, or the deadline of the connection
//	its connection is dead        probe, and then interrupt

// minStallTimeout is the shortest time without an answer after which a connection may be dead.
const minStallTimeout = 50 * time.Millisecond

const (
	handshakeTimeout = 10 * time.Second // for a dial and a handshake that no request waits for
	maxProbes        = 4                // of each kind, to a node at a time
)

// request is a request of go-redis that is in progress.
type request struct {
	ctx      requestContext
	node     *Node
	rdb      *redis.Client
	late     error                // the cause if time is up
	limit    time.Time            // when time is up
	stall    time.Duration        // how long the connection may be silent
	cmd      timedCmd             // of a direct call of the queue
	timer    *time.Timer          // calls onTimer
	caller   func()               // cancels the request because its caller's context has ended
	notifier Notifier             // calls caller, or
	unwatch  func() bool          // keeps package context from calling it; or neither
	conn     atomic.Pointer[conn] // nil: the request has no connection yet
	wrote    atomic.Int64         // when go-redis was about to write or read; see conns.now

	mu    sync.Mutex // guards all below, and the timer, while the request is in progress
	over  bool       // go-redis has returned
	cause error      // why the request was cancelled, nil if it was not
}

// requestContext is the context that go-redis gets. It costs less than those of package context, because
// it serves one request after another.
type requestContext struct {
	context.Context               // of the caller
	until           time.Time     // the deadline, which no other request of the client has
	done            chan struct{} // closed when the request is cancelled
}

// Deadline implements context.Context.
func (c *requestContext) Deadline() (time.Time, bool) { return c.until, true }

// Done implements context.Context.
func (c *requestContext) Done() <-chan struct{} { return c.done }

// Err implements context.Context.
func (c *requestContext) Err() error {
	select {
	case <-c.done:
		return context.Canceled
	default:
		return nil
	}
}

// Notifier is a context that costs less than [context.AfterFunc] does.
type Notifier interface {
	context.Context

	// Notify calls f in its own goroutine when the context ends before its Deadline. It
	// returns false, and does not call f, if another function is waiting for that.
	Notify(f func()) bool

	// StopNotify undoes Notify. It returns false if f was called before.
	StopNotify() bool
}

// cancel makes go-redis return.
func (r *request) cancel(cause error) {
	if r.mark(cause) {
		r.interrupt()
	}
}

// mark ends the context of a request, unless it has ended. A request that was marked serves no other one.
func (r *request) mark(cause error) (first bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	first = !r.over && r.cause == nil
	if first {
		r.cause = cause
		close(r.ctx.done)
	}
	return first
}

// interrupt ends the Read or Write of a request that was marked.
func (r *request) interrupt() {
	c := r.conn.Load()
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.request == r {
		_ = c.Conn.SetDeadline(longAgo) // Close could block
	}
}

// reason returns why a request was cancelled, or nil.
func (r *request) reason() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.cause == nil && !time.Now().Before(r.limit) { // the timer is about to fire
		r.cause = r.late
		close(r.ctx.done)
	}
	return r.cause
}

// onTimer cancels the request when its time is up. Before that it probes the node when the connection
// has been silent for the stall timeout.
func (r *request) onTimer() {
	if !time.Now().Before(r.limit) {
		r.cancel(r.late)
		return
	}
	left := r.stall - r.silence()
	if left <= 0 {
		left = r.stall
		if r.node.calls.Begin(context.Background()) == nil {
			node, rdb, until := r.node, r.rdb, r.limit
			node.conns.refuseSilent(r.wrote.Load())
			go func() {
				defer node.calls.running.Done()
				node.probe(&node.probes, rdb, until)
			}()
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.over {
		r.timer.Reset(min(left, time.Until(r.limit)))
	}
}

// silence returns for how long the connection of a request has been silent, and 0 if there is none.
func (r *request) silence() time.Duration {
	c := r.conn.Load()
	if c == nil {
		return 0
	}
	return time.Duration(r.node.conns.now() - max(r.wrote.Load(), c.lastRead.Load()))
}

// do calls f, which has rdb execute one request, with a ctx that ends with the given one, at until, or
// with the client. It returns soon after that, with the reason, which is late at until. f returns nil if
// the server has answered, or its error reply. The caller has called Calls.Begin.
func (n *Node) do(ctx context.Context, until time.Time, late NoAnswerError, rdb *redis.Client, f func(ctx context.Context) error) error {
	r, err := n.calls.start(ctx, until, late, n, rdb)
	if err != nil {
		return err
	}
	defer n.calls.finish(r, false)
	return n.settle(r, f(&r.ctx))
}

// valuer is a command whose reply is any value.
type valuer interface {
	redis.Cmder
	Val() any
}

// exec executes a pipeline. It returns nil if the server has answered one of cmds, which may not be all of
// the pipeline. If the server refuses the connection, go-redis returns an error but does not set it on
// the commands; exec does.
func exec[C valuer](ctx context.Context, pipe redis.Pipeliner, cmds []C) error {
	_, err := pipe.Exec(ctx)
	answered := err == nil
	for _, cmd := range cmds {
		if err != nil && cmd.Err() == nil && cmd.Val() == nil {
			cmd.SetErr(err)
		}
		answered = answered || IsAnswered(cmd.Err())
	}
	if answered {
		return nil
	}
	return err
}

// settle returns the error of a request for which go-redis has returned err.
func (n *Node) settle(r *request, err error) error {
	if IsAnswered(err) {
		return err
	}
	n.failures.Add(1)
	if r.silence() >= r.stall {
		n.conns.refuseSilent(r.wrote.Load())
	}
	cause := r.reason()
	if cause == nil {
		return err
	}
	// The next request then finds a connection, even if a handshake takes longer than a request may.
	// The probes of stalled requests, which end with them, do not keep it away.
	n.calls.running.Go(func() { n.probe(&n.reconnects, r.rdb, time.Now().Add(handshakeTimeout)) })
	return cause
}

// probe finds out whether the server answers on a connection that has received something lately, or
// on a new one. If it does, and they stay silent for a little longer, the requests on connections that
// have been silent since before have dead connections, and fail. It does nothing if as many as maxProbes of its kind are running.
func (n *Node) probe(running *atomic.Int32, rdb *redis.Client, until time.Time) {
	defer running.Add(-1)
	if running.Add(1) > maxProbes {
		return
	}
	began := n.conns.now()
	ping, err := n.calls.start(n.calls.ctx, until, NoAnswerError(handshakeTimeout), n, rdb)
	if err != nil {
		return
	}
	defer n.calls.finish(ping, false)
	if !IsAnswered(rdb.Ping(&ping.ctx).Err()) {
		return
	}
	// A server that was stopped may answer the PING before older requests, and a busy process may read
	// the answers in another order. Both get some time, so that no connection counts as dead meanwhile.
	select {
	case <-time.After(ping.stall / 4):
	case <-n.calls.ctx.Done():
		return
	}
	// Some have been sent a little later than the one that was probed for. A request that was sent
	// after the PING may just be slow.
	dead := func(r *request) bool {
		silent := r.stall / 2
		if r.rdb == n.acked { // the server may wait for replicas for most of that time
			silent = r.stall
		}
		return r.node == n && r.wrote.Load() < began && r.silence() >= silent
	}
	if n.calls.cancel(deadConnError{}, dead) {
		n.conns.refuseSilent(began)
		n.conns.notices.tell(DeadConn, "")
	}
}

const maxIdleRequests = 16

// start begins a request of rdb that ends with ctx, and at until with the cause late. The caller must call finish.
func (cs *Calls) start(ctx context.Context, until time.Time, late NoAnswerError, n *Node, rdb *redis.Client) (*request, error) {
	cause := error(late)
	if at, ok := ctx.Deadline(); ok && at.Before(until) {
		until, cause = at, context.DeadlineExceeded
	}
	left := time.Until(until)
	var r *request
	cs.mu.Lock()
	if last := len(cs.idle) - 1; last >= 0 {
		r, cs.idle = cs.idle[last], cs.idle[:last]
	} else {
		r = &request{ctx: requestContext{done: make(chan struct{})}}
		r.caller = func() { r.cancel(cmp.Or(context.Cause(r.ctx.Context), context.Canceled)) }
		r.timer = time.AfterFunc(time.Hour, r.onTimer)
		r.timer.Stop()
	}
	limit := until
	until = until.Add(1) // deadlines of others often are round
	for cs.requests[until.UnixNano()] != nil {
		until = until.Add(1)
	}
	r.node, r.rdb, r.late, r.limit, r.over = n, rdb, cause, limit, false
	r.ctx.Context, r.ctx.until = ctx, until
	r.stall = max(left/3, minStallTimeout)
	r.conn.Store(nil)
	r.wrote.Store(0)
	closed := cs.ctx.Err() != nil
	if !closed {
		cs.requests[until.UnixNano()] = r
	}
	cs.mu.Unlock()
	if closed {
		return nil, ErrClosed
	}
	r.timer.Reset(min(r.stall, left))
	if n, ok := ctx.(Notifier); ok && n.Notify(r.caller) {
		r.notifier = n
	} else if ctx.Done() != nil {
		r.unwatch = context.AfterFunc(ctx, r.caller)
	}
	return r, nil
}

// finish ends a request when go-redis has returned. If reusable is set, and nothing refers to the request,
// it serves another one.
func (cs *Calls) finish(r *request, reusable bool) {
	r.mu.Lock()
	r.over = true
	reusable = r.timer.Stop() && r.cause == nil && reusable
	r.mu.Unlock()
	if r.notifier != nil {
		reusable = r.notifier.StopNotify() && reusable
	}
	if r.unwatch != nil {
		reusable = r.unwatch() && reusable
	}
	r.notifier, r.unwatch = nil, nil
	cs.mu.Lock()
	defer cs.mu.Unlock()
	delete(cs.requests, r.ctx.until.UnixNano())
	if reusable && len(cs.idle) < maxIdleRequests {
		r.cmd, r.ctx.Context = timedCmd{}, nil // the arguments and the ctx are the caller's
		cs.idle = append(cs.idle, r)
	}
}

// cancel cancels the requests for which f returns true. It reports whether there are any.
func (cs *Calls) cancel(cause error, f func(*request) bool) bool {
	cs.mu.Lock()
	found, marked := cs.mark(cause, f)
	cs.mu.Unlock()
	for _, r := range marked { // without mu, because that sets a deadline of a connection of the user
		r.interrupt()
	}
	return found
}

// mark ends the contexts of the requests for which f returns true. It returns whether there are any, and the
// requests whose contexts had not ended before. The caller holds mu.
func (cs *Calls) mark(cause error, f func(*request) bool) (found bool, marked []*request) {
	for _, r := range cs.requests {
		if f(r) {
			found = true
			if r.mark(cause) {
				marked = append(marked, r)
			}
		}
	}
	return found, marked
}
