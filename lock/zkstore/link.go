package zkstore

import (
	"context"
	"encoding/binary"
	"errors"
	"net"
	"sync"
	"time"

	"github.com/go-zookeeper/zk"
)

// link is the connection to the servers. It knows its session.
type link struct {
	conn    *zk.Conn
	events  <-chan zk.Event
	expired func(session int64)
	calls   sync.WaitGroup

	mu        sync.Mutex    // guards all below
	session   int64         // 0: there is none
	granted   time.Duration // its timeout
	connected bool
	changed   chan struct{} // is closed when the fields above change
	open      net.Conn      // the connection that was dialed last
	closed    bool
}

var errClosed = errors.New("the connection is closed")

func dial(servers []string, timeout time.Duration, logger zk.Logger, expired func(int64)) (*link, error) {
	l := &link{granted: timeout, expired: expired, changed: make(chan struct{})}
	var err error
	l.conn, l.events, err = zk.Connect(servers, timeout,
		zk.WithLogger(logger), zk.WithLogInfo(false), zk.WithDialer(l.dial), zk.WithEventCallback(l.event))
	return l, err
}

// dial dials a server, for the ZooKeeper client.
func (l *link) dial(network, address string, timeout time.Duration) (net.Conn, error) {
	c, err := net.DialTimeout(network, address, timeout)
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = c.Close()
		return nil, errClosed
	}
	l.open = c
	return &observed{Conn: c, link: l}, nil
}

// observed reads the session and its timeout from the first answer of a connection, because the
// client does not tell the timeout.
type observed struct {
	net.Conn
	link  *link
	first []byte // of the answer; only the reading goroutine uses it
	done  bool
}

// The first answer is its length, the version of the protocol, the timeout in milliseconds, of 4
// bytes each, and the session, of 8 bytes.
const firstAnswer = 20

func (o *observed) Read(p []byte) (int, error) {
	n, err := o.Conn.Read(p)
	if !o.done {
		o.first = append(o.first, p[:n]...)
		if len(o.first) >= firstAnswer {
			o.done = true
			timeout := time.Duration(binary.BigEndian.Uint32(o.first[8:])) * time.Millisecond
			o.link.hasSession(int64(binary.BigEndian.Uint64(o.first[12:])), timeout) //nolint:gosec // a session is any int64
			o.first = nil
		}
	}
	return n, err
}

// hasSession records the answer of a server to a connection. The session is 0 if the last one has
// expired.
func (l *link) hasSession(session int64, timeout time.Duration) {
	l.mu.Lock()
	old := l.session
	l.session = session
	if session != 0 && timeout > 0 {
		l.granted = timeout
	}
	l.notify()
	l.mu.Unlock()
	if old != 0 && old != session {
		l.expired(old)
	}
}

// event is called by the ZooKeeper client.
func (l *link) event(e zk.Event) {
	if e.Type != zk.EventSession {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	switch e.State {
	case zk.StateHasSession:
		l.connected = true
	case zk.StateDisconnected, zk.StateExpired, zk.StateConnecting:
		l.connected = false
	default:
		return
	}
	l.notify()
}

// notify wakes those that wait for a change. mu is locked.
func (l *link) notify() {
	close(l.changed)
	l.changed = make(chan struct{})
}

func (l *link) timeout() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.granted
}

// current returns the session, 0 if there is none.
func (l *link) current() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.session
}

// state reports whether there is a connection with a session, and returns a channel that is
// closed when that may have changed.
func (l *link) state() (bool, <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.connected && l.session != 0, l.changed
}

// ready returns when there is a session, or when ctx ends.
func (l *link) ready(ctx context.Context) error {
	for {
		ok, changed := l.state()
		if ok {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// close ends the session and all calls.
func (l *link) close() {
	l.conn.Close()
	l.mu.Lock()
	l.closed = true
	open := l.open
	l.mu.Unlock()
	if open != nil {
		_ = open.Close()
	}
	for range l.events { // ends with the last goroutine of the client
		continue
	}
	l.calls.Wait()
}

// ask calls f, which makes one request, and returns its results or the cause of ctx. After the end
// of ctx f goes on, and its request may still be executed.
func ask[T any](ctx context.Context, l *link, f func(c *zk.Conn) (T, error)) (T, error) {
	var zero T
	if ctx.Err() != nil {
		return zero, context.Cause(ctx)
	}
	type result struct {
		value T
		err   error
	}
	answer := make(chan result, 1)
	l.calls.Go(func() {
		v, err := f(l.conn)
		answer <- result{v, err}
	})
	select {
	case r := <-answer:
		return r.value, r.err
	case <-ctx.Done():
		return zero, context.Cause(ctx)
	}
}
