// This file is about the connections of a node: dialing, deadlines and the check of idle ones.

package redisnode

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/lock/internal/replylimit"
)

const (
	// dialTimeout bounds a dial, unless the user's DialTimeout is shorter.
	dialTimeout = 10 * time.Second

	// freshFor is how long after its latest reply a connection counts as open. If the server closes it
	// within that time, the next request fails, as it does if the server closes the connection during
	// that request. Asking the kernel costs a twentieth of a lock and its unlock.
	freshFor = time.Millisecond
)

var (
	errNoConn      = errors.New("the Dialer of redis.Options returned neither a connection nor an error")
	errNoDeadlines = errors.New("the connection does not support deadlines")
	errNoDial      = errors.New("the connection has ended")
	errSilent      = errors.New("the connection was silent during a request without an answer, or has old credentials")
)

// longAgo is a deadline in the past. Setting it ends a Read or Write that is in progress.
var longAgo = time.Unix(1, 0)

type dialFunc = func(ctx context.Context, network, addr string) (net.Conn, error)

// conns dials the connections of a node for go-redis, and watches them.
type conns struct {
	options redis.Options // that Derive returned
	calls   *Calls
	notices notices
	began   time.Time

	silentSince atomic.Int64  // connections with no reply since then are not used again; see now
	dials       atomic.Uint64 // connections that were made
	minCurrent  atomic.Uint64 // connections with lower numbers have old credentials
}

// now returns the current time as the connections keep it: in nanoseconds, and above 0.
func (c *conns) now() int64 { return int64(time.Since(c.began)) + 1 }

// noDial is the key of a context value that forbids dialing.
type noDial struct{}

// WithoutDial returns a context with which go-redis does not dial again after a connection
// has failed.
func WithoutDial(ctx context.Context) context.Context { return context.WithValue(ctx, noDial{}, true) }

// dial is the Dialer of the clients of a node. It fails only if a connection is not wanted. If the
// user's Dialer fails, it returns a failedConn: go-redis counts failed dials over the life of a pool,
// and when there are as many as the pool has connections, it refuses all requests and dials once a
// second.
func (c *conns) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if ctx.Value(noDial{}) != nil {
		return nil, errNoDial
	}
	bounded, cancel := context.WithTimeout(ctx, c.options.DialTimeout)
	defer cancel()
	defer context.AfterFunc(c.calls.ctx, cancel)()
	inner, err := CallUser(bounded, c.calls, func() (net.Conn, error) { return c.options.Dialer(bounded, network, addr) })
	switch {
	case err != nil:
	case inner == nil:
		err = errNoConn
	case inner.SetDeadline(time.Time{}) != nil:
		_ = inner.Close()
		err = errNoDeadlines
	}
	if err != nil {
		if c.calls.ctx.Err() == nil {
			c.notices.tell(Unreachable, err.Error())
		}
		inert, _ := net.Pipe() // supports Close and deadlines
		return failedConn{inert, fmt.Errorf("no connection: %w", err)}, nil
	}
	conn := &conn{Conn: inner, conns: c, number: c.dials.Add(1)}
	conn.lastRead.Store(c.now())
	return conn, nil
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

// refuseOld keeps go-redis from using the connections that were made so far.
func (c *conns) refuseOld() { c.minCurrent.Store(c.dials.Load() + 1) }

// refuseSilent keeps go-redis from using the connections that have received nothing since a time.
func (c *conns) refuseSilent(since int64) {
	for {
		old := c.silentSince.Load()
		if old >= since || c.silentSince.CompareAndSwap(old, since) {
			return
		}
	}
}

// conn is a connection of a node.
type conn struct {
	net.Conn
	conns    *conns
	number   uint64             // how many connections were made up to this one
	lastRead atomic.Int64       // when something was received
	answered bool               // something was read; only the reader uses it
	replies  replylimit.Scanner // only the reader uses it

	mu      sync.Mutex // guards request, and orders changes of deadlines
	request *request   // that uses the connection, or has used it last
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if invalid := c.replies.Scan(p[:n]); invalid != nil {
		return 0, invalid
	}
	if n > 0 {
		c.lastRead.Store(c.conns.now())
		if !c.answered {
			c.answered = true
			c.conns.notices.links.Add(1)
		}
	}
	return n, err
}

// SetDeadline implements net.Conn. go-redis calls it before it looks whether an idle connection is still open.
func (c *conn) SetDeadline(t time.Time) error { return c.setDeadline(t, c.Conn.SetDeadline) }

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(t time.Time) error { return c.setDeadline(t, c.Conn.SetReadDeadline) }

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(t time.Time) error { return c.setDeadline(t, c.Conn.SetWriteDeadline) }

// setDeadline binds the connection to the request with that deadline; see call.go. If the request has
// ended, the deadline is in the past.
func (c *conn) setDeadline(t time.Time, set func(time.Time) error) error {
	cs := c.conns.calls
	cs.mu.Lock()
	r := cs.requests[t.UnixNano()]
	cs.mu.Unlock()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.request = r
	if r != nil {
		r.wrote.Store(c.conns.now())
		r.conn.Store(c)
		if r.ctx.Err() != nil {
			t = longAgo
		}
	}
	return set(t)
}

// SyscallConn implements syscall.Conn. go-redis calls it before it uses an idle connection, to ask the
// kernel whether the server has closed it, and drops the connection if SyscallConn returns an error.
func (c *conn) SyscallConn() (syscall.RawConn, error) {
	read := c.lastRead.Load()
	if read <= c.conns.silentSince.Load() || c.number < c.conns.minCurrent.Load() {
		return nil, errSilent
	}
	socket, ok := c.Conn.(syscall.Conn)
	if !ok || c.conns.now()-read < int64(freshFor) {
		return noSocket{}, nil
	}
	return socket.SyscallConn()
}

// noSocket is the RawConn of a connection about which the kernel is not asked.
type noSocket struct{}

// Control implements syscall.RawConn.
func (noSocket) Control(func(uintptr)) error { return nil }

// Read implements syscall.RawConn.
func (noSocket) Read(func(uintptr) bool) error { return nil }

// Write implements syscall.RawConn.
func (noSocket) Write(func(uintptr) bool) error { return nil }

// failedConn takes the place of a connection after a failed dial. Each Read and Write returns the
// error of the dial.
type failedConn struct {
	net.Conn
	err error
}

// Read implements net.Conn.
func (f failedConn) Read([]byte) (int, error) { return 0, f.err }

// Write implements net.Conn.
func (f failedConn) Write([]byte) (int, error) { return 0, f.err }

// SyscallConn implements syscall.Conn. The error makes go-redis drop the connection.
func (f failedConn) SyscallConn() (syscall.RawConn, error) { return nil, f.err }
