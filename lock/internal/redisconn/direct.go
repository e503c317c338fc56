package redisconn

import (
	"context"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// directConn sends one command at a time, on the goroutine of its caller. When the ctx of a
// call is cancelled, it sets the deadline of the connection to the past, so that go-redis
// returns; see the package comment. No other call uses that connection, and go-redis closes
// it.
//
// A call ends in one of these ways:
//
//	reply or network error      process returns it
//	ctx ends                    interrupt, called by context.AfterFunc
//	its time is up in a dial    interrupt, called by the timer of limitDial
//	its time is up otherwise    the deadline of the connection
//	its connection is dead      interrupt, called by giveUp of the exchange
type directConn struct {
	rdb      *redis.Client
	detector *stallDetector
	timer    *time.Timer // the stall timeout of the current call

	spare *directCall // for the next call, or nil

	mu        sync.Mutex  // guards all below, and fields of directCall
	current   *directCall // the call in progress, or the last one
	lastConn  net.Conn    // the connection of the last call that ended, if that got a reply
	lastBegan time.Time   // when that call began
}

// directCall is one call, and the ctx that go-redis gets for it. It serves one call after
// another until something may refer to it after its call; see reusable.
type directCall struct {
	deadlineContext
	exchange
	cmd    redis.Cmd
	done   chan struct{} // closed when interrupted is set
	cancel func()        // interrupts the call

	// What calls cancel when the ctx of the call ends: one of them, or neither.
	notifier Notifier
	stop     func() bool

	// Guarded by directConn.mu.
	conn        net.Conn // to which go-redis has written the command
	ended       bool     // process has returned, so conn may carry the next call
	interrupted bool     // go-redis must not wait any longer
	dead        bool     // the reason for the interruption is a dead connection
	dialed      bool     // go-redis may use the ctx of the call on another goroutine
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

// Done implements context.Context.
func (c *directCall) Done() <-chan struct{} { return c.done }

// Deadline implements context.Context; see exchangeContext.
func (c *directCall) Deadline() (time.Time, bool) {
	c.setHasConn()
	return c.deadlineContext.Deadline()
}

// Value implements context.Context.
func (c *directCall) Value(key any) any {
	if key == (exchangeKey{}) {
		return &c.exchange
	}
	return c.Context.Value(key)
}

// Err implements context.Context.
func (c *directCall) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	select {
	case <-c.done:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// newDirectConn returns a directConn with the options o of a go-redis client.
func newDirectConn(o redis.Options, d *stallDetector) *directConn {
	s := &directConn{detector: d}
	s.timer = time.AfterFunc(time.Hour, s.onStall)
	s.timer.Stop()
	dial := o.Dialer
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		defer s.limitDial()()
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return interruptibleConn{conn, s}, nil
	}
	s.rdb = redis.NewClient(&o)
	return s
}

// process sends a command. It returns when the reply has arrived, ctx has ended, the time
// is up, or the connection is known to be dead. It also returns an instant before the
// command was written. The caller ensures that there is only one call at a time.
func (s *directConn) process(ctx context.Context, until time.Time, args []any) (value any, sent time.Time, err error) {
	if at, ok := ctx.Deadline(); ok && at.Before(until) {
		until = at
	}
	call := s.begin(ctx, until)
	call.watch(ctx)
	call.cmd = *redis.NewCmd(call, args...)
	err = s.rdb.Process(call, &call.cmd)
	quiet := call.unwatch()
	value, sent = call.cmd.Val(), call.began
	if s.end(call, isAnswered(err)) {
		err = deadConnError{}
	}
	if quiet && err == nil && s.reusable(call) {
		call.Context, call.cmd = context.Background(), redis.Cmd{}
		s.spare = call
	}
	return value, sent, err
}

// begin returns the current call, which it begins.
func (s *directConn) begin(ctx context.Context, until time.Time) *directCall {
	call := s.spare
	s.spare = nil
	if call == nil {
		call = &directCall{done: make(chan struct{})}
		call.cancel = func() { s.interrupt(call, false) }
	}
	s.mu.Lock()
	call.deadlineContext = deadlineContext{ctx, until}
	call.conn, call.ended = nil, false
	e := &call.exchange
	e.number, e.began, e.until, e.timer = s.detector.trust.nextRequest(), time.Now(), until, s.timer
	e.hasConn.Store(false)
	timeout, ok := s.detector.stallTimeout(e.until.Sub(e.began))
	e.stallTimeout = timeout
	s.current = call
	s.mu.Unlock()
	if ok {
		s.timer.Reset(timeout)
	}
	return call
}

// end ends a call, so that a late interruption does not affect the next one. It reports
// whether the call has no answer because its connection is dead.
func (s *directConn) end(call *directCall, answered bool) (dead bool) {
	s.timer.Stop()
	s.mu.Lock()
	call.ended = true
	s.lastConn, s.lastBegan = nil, call.began
	if answered {
		s.lastConn = call.conn
	}
	dead = call.dead && !answered
	stalled := call.giveUp != nil
	s.mu.Unlock()
	if stalled {
		s.detector.end(&call.exchange, answered)
	}
	return dead
}

// reusable reports whether nothing refers to a call that has ended with a reply: neither
// go-redis, which may use its ctx for a dial, nor an interruption, nor the detector.
func (s *directConn) reusable(call *directCall) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !call.interrupted && !call.dialed && call.giveUp == nil
}

// watch has cancel called when ctx ends, unless that is at its deadline.
func (c *directCall) watch(ctx context.Context) {
	if n, ok := ctx.(Notifier); ok && n.Notify(c.cancel) {
		c.notifier = n
	} else if ctx.Done() != nil {
		c.stop = context.AfterFunc(ctx, c.cancel)
	}
}

// unwatch undoes watch. It returns false if cancel was called, which may not have returned.
func (c *directCall) unwatch() bool {
	notifier, stop := c.notifier, c.stop
	c.notifier, c.stop = nil, nil
	switch {
	case notifier != nil:
		return notifier.StopNotify()
	case stop != nil:
		return stop()
	}
	return true
}

// onStall is called when the current call has had no answer for its stall timeout. Only
// from then on does the detector know the exchange of the call.
func (s *directConn) onStall() {
	s.mu.Lock()
	call := s.current
	if call.ended {
		s.mu.Unlock()
		return
	}
	call.giveUp = func() { s.interrupt(call, true) }
	s.mu.Unlock()
	s.detector.onStall(&call.exchange)
}

// limitDial interrupts the current call when its time is up, until stop is called. go-redis
// waits for a dial until the ctx is done, and only an interruption closes call.done.
func (s *directConn) limitDial() (stop func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	call := s.current
	call.dialed = true
	return time.AfterFunc(time.Until(call.deadlineContext.until), call.cancel).Stop
}

// interrupt makes go-redis return from a call, unless the call has ended.
func (s *directConn) interrupt(call *directCall, dead bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if call.ended || call.interrupted {
		return
	}
	call.interrupted, call.dead = true, dead
	close(call.done)
	if call.conn != nil {
		_ = call.conn.SetDeadline(longAgo) // Close could block
	}
}

// setConn records the connection of the current call, and reports whether the call has
// been interrupted.
func (s *directConn) setConn(conn net.Conn) (interrupted bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == nil {
		return false
	}
	s.current.conn = conn
	return s.current.interrupted
}

// freshFor is how long after the beginning of a call its connection counts as open. If the
// server closes it within that time, the next call fails, as it does if the server closes the
// connection during that call. Asking the kernel costs a twentieth of a lock and its unlock.
const freshFor = time.Millisecond

// isFresh reports whether the last call got a reply on conn and began less than freshFor
// before the current call.
func (s *directConn) isFresh(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return conn == s.lastConn && s.current.began.Sub(s.lastBegan) < freshFor
}

// interruptibleConn is a connection of a directConn. It tells the directConn which
// connection the current call uses.
type interruptibleConn struct {
	net.Conn
	owner *directConn
}

// Write implements net.Conn.
func (c interruptibleConn) Write(p []byte) (int, error) {
	if c.owner.setConn(c.Conn) {
		return 0, net.ErrClosed
	}
	return c.Conn.Write(p)
}

// SetReadDeadline implements net.Conn. It keeps the past deadline of an interrupted call,
// because go-redis sets the deadline again between writing and reading.
func (c interruptibleConn) SetReadDeadline(t time.Time) error {
	err := c.Conn.SetReadDeadline(t)
	if c.owner.setConn(c.Conn) {
		return c.Conn.SetReadDeadline(longAgo)
	}
	return err
}

// SyscallConn implements syscall.Conn. For a fresh connection it returns no socket, so that
// go-redis does not ask the kernel whether the server has closed it.
func (c interruptibleConn) SyscallConn() (syscall.RawConn, error) {
	raw, err := c.Conn.(syscall.Conn).SyscallConn()
	if err == nil && c.owner.isFresh(c.Conn) {
		return noSocket{}, nil
	}
	return raw, err
}

// deadlineContext is a context whose Deadline is until, if that is earlier than the
// deadline of the wrapped context. It has no timer: only go-redis, which asks for the
// Deadline, ends by it.
type deadlineContext struct {
	context.Context
	until time.Time
}

// Deadline implements context.Context.
func (d deadlineContext) Deadline() (time.Time, bool) {
	if at, ok := d.Context.Deadline(); ok && at.Before(d.until) {
		return at, true
	}
	return d.until, true
}
