// Connections: dials, deadlines and the functions of the user.

package redisnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"syscall"
	"time"
)

const (
	// dialTimeout bounds a dial, unless the user's DialTimeout is shorter.
	dialTimeout = 10 * time.Second

	// freshFor is how long after a request a connection counts as open. If the server closes it within that
	// time, the next request fails, as it does if the server closes the connection during that request.
	// Asking the kernel costs a twentieth of a lock and its unlock.
	freshFor = time.Millisecond
)

var (
	errNoConn      = errors.New("the Dialer of redis.Options returned neither a connection nor an error")
	errNoDeadlines = errors.New("the connection does not support deadlines")
	errNoDial      = errors.New("the connection has ended")
)

// longAgo is a deadline in the past. Setting it ends a Read or Write that is in progress.
var longAgo = time.Unix(1, 0)

// noDial is the key of a context value that forbids dialing.
type noDial struct{}

// WithoutDial returns a context with which go-redis does not dial again after a connection
// has failed.
func WithoutDial(ctx context.Context) context.Context { return context.WithValue(ctx, noDial{}, true) }

// dial makes a connection with the Dialer of the user.
func (n *Node) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if ctx.Value(noDial{}) != nil {
		return nil, errNoDial
	}
	ctx, cancel := context.WithTimeout(ctx, n.options.DialTimeout)
	defer cancel()
	defer context.AfterFunc(n.calls.ctx, cancel)()
	c, err := CallUser(ctx, n.calls, func() (net.Conn, error) { return n.options.Dialer(ctx, network, addr) })
	switch {
	case err != nil:
	case c == nil:
		err = errNoConn
	case c.SetDeadline(time.Time{}) != nil:
		_ = c.Close()
		err = errNoDeadlines
	default:
		noticeDeath(c, max(n.timeout/3, time.Second))
		return c, nil
	}
	return nil, fmt.Errorf("no connection: %w", err)
}

// dial is the Dialer of the client of the lane. It never fails, because go-redis returns the error of a
// failed dial to later requests, too. The connection returns the error to its own request alone.
func (l *lane) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	ctx, done := l.bind(ctx)
	defer done()
	login := l.node.login.number()
	inner, err := l.node.dial(ctx, network, addr)
	if err != nil {
		pipe, _ := net.Pipe() // supports Close and deadlines
		inner = failedConn{pipe, err}
	}
	c := &conn{Conn: inner, lane: l, login: login}
	l.mu.Lock()
	l.conn = c
	l.mu.Unlock()
	return c, c.SetDeadline(time.Time{})
}

// CallUser calls f, a function of the user, on a goroutine that Calls.Wait waits for. It returns when f does or
// ctx ends. If f returns a net.Conn later, CallUser closes it. A panic of f, or a call of runtime.Goexit, is
// an error.
func CallUser[T any](ctx context.Context, cs *Calls, f func() (T, error)) (T, error) {
	type result struct {
		value T
		err   error
	}
	var none T
	if err := cs.Begin(ctx); err != nil {
		return none, err
	}
	done := make(chan result)
	go func() {
		defer cs.running.Done()
		r := result{err: errors.New("a function of redis.Options called runtime.Goexit")}
		defer func() {
			if v := recover(); v != nil {
				r.err = fmt.Errorf("a function of redis.Options panicked: %v", v)
			}
			select {
			case done <- r:
			case <-ctx.Done():
				if late, ok := any(r.value).(net.Conn); ok && r.err == nil {
					_ = late.Close()
				}
			}
		}()
		r.value, r.err = f()
	}()
	select {
	case r := <-done:
		return r.value, r.err
	case <-ctx.Done():
		return none, ctx.Err()
	}
}

// failedConn is the connection of a failed dial.
type failedConn struct {
	net.Conn
	err error
}

// Write implements net.Conn.
func (c failedConn) Write([]byte) (int, error) { return 0, c.err }

// conn is the connection of a lane.
type conn struct {
	net.Conn
	lane  *lane
	login uint64 // the number of its credentials

	// The handshake is over; Close was called; there is a deadline; the connection may be dead. Guarded by lane.mu.
	ready, closed, timed, suspect bool
}

// Write implements net.Conn. What follows the handshake belongs to a request.
func (c *conn) Write(p []byte) (int, error) {
	l := c.lane
	l.mu.Lock()
	if c.ready && l.running && l.sent.IsZero() {
		l.sent = time.Now()
	}
	l.mu.Unlock()
	return c.Conn.Write(p)
}

// Close implements net.Conn. Below TLS nothing is sent to the server, because that could block.
func (c *conn) Close() error {
	l := c.lane
	l.mu.Lock()
	c.closed = true
	if l.conn == c {
		l.conn = nil
	}
	l.mu.Unlock()
	if secure, ok := c.Conn.(interface{ NetConn() net.Conn }); ok {
		_ = secure.NetConn().Close()
	}
	return c.Conn.Close()
}

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(t time.Time) error { return c.setDeadline(t, c.Conn.SetDeadline) }

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error { return c.setDeadline(t, c.Conn.SetReadDeadline) }

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error { return c.setDeadline(t, c.Conn.SetWriteDeadline) }

// setDeadline sets the deadline that go-redis wants, and no later one than the end of a request that the lane follows. The
// lane follows a request from a tick on; most requests have their answer before and need no deadline. A request that was
// interrupted has no time left.
func (c *conn) setDeadline(t time.Time, set func(time.Time) error) error {
	l := c.lane
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.ended:
		t = longAgo
	case l.unfollow != nil && (t.IsZero() || t.After(l.until)):
		t = l.until
	case t.IsZero() && !c.timed:
		return nil
	}
	c.timed = true // a deadline for reads may be left when the one for writes is removed
	return set(t)
}

// SyscallConn implements syscall.Conn. go-redis calls it before it uses an idle connection, to ask the
// kernel whether the server has closed it, and drops the connection if SyscallConn returns an error.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	c.lane.mu.Lock()
	closed, usedAt := c.closed, c.lane.usedAt
	c.lane.mu.Unlock()
	if closed {
		return nil, net.ErrClosed
	}
	socket, ok := c.Conn.(syscall.Conn)
	if !ok || time.Since(usedAt) < freshFor {
		return noSocket{}, nil
	}
	return socket.SyscallConn()
}

// noSocket is the RawConn of a connection about which the kernel is not asked.
type noSocket struct{}

// Control implements syscall.RawConn.
func (noSocket) Control(func(uintptr)) error { return nil }

// Write implements syscall.RawConn.
func (noSocket) Write(func(uintptr) bool) error { return nil }

// Read implements syscall.RawConn.
func (noSocket) Read(func(uintptr) bool) error { return nil }
