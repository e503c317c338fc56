package redisconn

import (
	"net"
	"os"
	"sync"
	"time"
)

// timedConn adds deadlines to a connection that does not support them, such as one through
// SSH. If a Read or a Write has not returned by its deadline, timedConn closes the
// connection.
type timedConn struct {
	net.Conn
	read, write timeLimit
}

func newTimedConn(conn net.Conn) *timedConn {
	c := &timedConn{Conn: conn}
	c.read.onExpiry = func() { _ = conn.Close() }
	c.write.onExpiry = c.read.onExpiry
	return c
}

// Read implements net.Conn.
func (c *timedConn) Read(p []byte) (int, error) { return c.read.call(p, c.Conn.Read) }

// Write implements net.Conn.
func (c *timedConn) Write(p []byte) (int, error) { return c.write.call(p, c.Conn.Write) }

// SetDeadline implements net.Conn.
func (c *timedConn) SetDeadline(t time.Time) error {
	c.read.set(t)
	c.write.set(t)
	return nil
}

// SetReadDeadline implements net.Conn.
func (c *timedConn) SetReadDeadline(t time.Time) error {
	c.read.set(t)
	return nil
}

// SetWriteDeadline implements net.Conn.
func (c *timedConn) SetWriteDeadline(t time.Time) error {
	c.write.set(t)
	return nil
}

// timeLimit is the deadline of one direction. The timer runs only during a call, so that
// an idle connection survives the deadline of its last request.
type timeLimit struct {
	onExpiry func() // makes the call return

	mu       sync.Mutex // guards all below
	deadline time.Time  // zero: none
	busy     bool       // a call is in progress
	expired  bool       // a call has exceeded its deadline
	timer    *time.Timer
}

func (l *timeLimit) set(t time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.deadline = t
	l.setTimer()
}

// call calls f, which is Read or Write of the connection.
func (l *timeLimit) call(p []byte, f func([]byte) (int, error)) (int, error) {
	if !l.begin() {
		return 0, os.ErrDeadlineExceeded
	}
	n, err := f(p)
	if l.end() && err != nil {
		err = os.ErrDeadlineExceeded
	}
	return n, err
}

func (l *timeLimit) begin() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.expired || l.hasPassed() {
		return false
	}
	l.busy = true
	l.setTimer()
	return true
}

// end reports whether the call exceeded its deadline.
func (l *timeLimit) end() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.busy = false
	l.setTimer()
	return l.expired
}

func (l *timeLimit) hasPassed() bool {
	return !l.deadline.IsZero() && !time.Now().Before(l.deadline)
}

// setTimer starts the timer during a call and stops it otherwise. The caller holds mu.
func (l *timeLimit) setTimer() {
	switch {
	case !l.busy || l.deadline.IsZero():
		if l.timer != nil {
			l.timer.Stop()
		}
	case l.timer == nil:
		l.timer = time.AfterFunc(time.Until(l.deadline), l.onTimer)
	default:
		l.timer.Reset(time.Until(l.deadline))
	}
}

// onTimer ends the call that is in progress, unless its deadline has been moved.
func (l *timeLimit) onTimer() {
	l.mu.Lock()
	expire := l.busy && !l.expired && l.hasPassed()
	l.expired = l.expired || expire
	l.mu.Unlock()
	if expire {
		l.onExpiry()
	}
}
