package redisstore

import (
	"context"
	"net"
	"sync"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// soloist sends one script at a time, on the goroutine of its caller. While go-redis
// waits for an answer it notices the deadline of a ctx, but not that the ctx is
// cancelled. So a cancelled call has the deadline of its connection set to the past:
// nobody else uses that connection, and go-redis closes it.
type soloist struct {
	rdb *redis.Client

	mu  sync.Mutex // guards now, and the fields of solo
	now *solo      // the call that is under way
}

// solo is one call, and the ctx that go-redis is given for it.
type solo struct {
	deadline
	over chan struct{} // closed when broken is set

	conn   net.Conn // that it was sent on
	ended  bool     // it has returned: its connection may be that of the next call
	broken bool     // its ctx was cancelled, or its time is up: it must not wait any more
}

// Done implements context.Context.
func (c *solo) Done() <-chan struct{} { return c.over }

// Err implements context.Context.
func (c *solo) Err() error {
	if err := c.Context.Err(); err != nil {
		return err
	}
	select {
	case <-c.over:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

func newSoloist(o redis.Options) *soloist {
	s := new(soloist)
	dial := o.Dialer
	if dial == nil {
		dial = redis.NewDialer(&o)
	}
	o.Dialer = func(ctx context.Context, network, addr string) (net.Conn, error) {
		defer s.limit()()
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		return s.attend(conn), nil
	}
	s.rdb = redis.NewClient(&o)
	return s
}

// process sends a command and returns when it is answered, or will not be: when ctx
// has ended, or its time is up. The caller sees to it that there is one call at a
// time.
func (s *soloist) process(ctx context.Context, until time.Time, cmd *redis.Cmd) error {
	call := &solo{deadline: deadline{ctx, until}, over: make(chan struct{})}
	s.mu.Lock()
	s.now = call
	s.mu.Unlock()
	defer context.AfterFunc(ctx, func() { s.interrupt(call) })()
	defer s.end(call)
	return s.rdb.Process(call, cmd)
}

// limit ends the call that is under way when its time is up, until it is told to stop:
// go-redis waits for a dial as long as that takes, unless its ctx ends.
func (s *soloist) limit() (stop func() bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	call := s.now
	return time.AfterFunc(time.Until(call.until), func() { s.interrupt(call) }).Stop
}

// interrupt ends a call that is under way.
func (s *soloist) interrupt(call *solo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if call.ended || call.broken {
		return
	}
	call.broken = true
	close(call.over)
	if call.conn != nil {
		_ = call.conn.SetDeadline(longAgo) // to close it may take a while
	}
}

// end keeps an interruption that comes too late from the next call.
func (s *soloist) end(call *solo) {
	s.mu.Lock()
	defer s.mu.Unlock()
	call.ended = true
}

// attend returns the connection wrapped so that a call that writes to it takes note of
// it: that is the one to interrupt.
func (s *soloist) attend(conn net.Conn) net.Conn {
	a := attended{conn, s}
	if raw, ok := conn.(syscall.Conn); ok {
		return attendedRaw{a, raw}
	}
	return a
}

// attended is a connection of a soloist.
type attended struct {
	net.Conn
	by *soloist
}

// Write implements net.Conn.
func (a attended) Write(p []byte) (int, error) {
	if a.by.interrupted(a.Conn) {
		return 0, net.ErrClosed
	}
	return a.Conn.Write(p)
}

// SetReadDeadline implements net.Conn. The time of an interrupted call stays up.
func (a attended) SetReadDeadline(t time.Time) error {
	err := a.Conn.SetReadDeadline(t)
	if a.by.interrupted(a.Conn) {
		return a.Conn.SetReadDeadline(longAgo)
	}
	return err
}

// longAgo is a deadline that has passed.
var longAgo = time.Unix(1, 0)

// attendedRaw is one that lets go-redis see whether the server has hung up.
type attendedRaw struct {
	attended
	raw syscall.Conn
}

// SyscallConn implements syscall.Conn.
func (a attendedRaw) SyscallConn() (syscall.RawConn, error) { return a.raw.SyscallConn() }

// interrupted notes the connection of the call that is under way, and reports
// whether that has been interrupted.
func (s *soloist) interrupted(conn net.Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now == nil {
		return false
	}
	s.now.conn = conn
	return s.now.broken
}

// deadline is a context that ends no later than at an instant, for those who ask
// for its Deadline, as go-redis does. It has no timer.
type deadline struct {
	context.Context
	until time.Time
}

// Deadline implements context.Context.
func (d deadline) Deadline() (time.Time, bool) {
	if at, ok := d.Context.Deadline(); ok && at.Before(d.until) {
		return at, true
	}
	return d.until, true
}
