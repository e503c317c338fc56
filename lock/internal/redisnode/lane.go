// Lanes: go-redis clients with one connection each, and the end of their requests.

package redisnode

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// A request knows its connection, because it has a lane for itself and a lane has one connection. go-redis
// runs on the goroutine of the caller. When the ctx of the request ends, its time is up or the client is
// closed, the deadline of the connection moves to the past; go-redis then returns and closes the
// connection, so that no later request reads a late answer. The next request makes a new connection.

// lane is a go-redis client with one connection.
type lane struct {
	node  *Node
	rdb   *redis.Client
	calls []call    // of the request that has the lane; empty between requests
	cmd   redis.Cmd // the only command of that request

	mu      sync.Mutex // guards all below
	conn    *conn      // nil: the next request dials
	running bool       // a request has the lane
	request uint64     // the number of the latest request
	until   time.Time  // when the request ends
	ended   bool       // the request was interrupted
	closed  error      // nil, or why every request is interrupted
	cancel  func()     // ends the ctx of the function of the user that the request waits for
	sent    time.Time  // when the first bytes of the request were about to be written
	usedAt  time.Time  // when the latest request ended
}

// begin begins a request that ends at until, or with ctx. The caller calls end when go-redis has returned. inner is the
// ctx for go-redis, which does not end: go-redis would leave a dial behind, and the next request would wait for that.
func (l *lane) begin(ctx context.Context, until time.Time) (inner context.Context, stop func() bool, err error) {
	l.mu.Lock()
	if err := l.closed; err != nil {
		l.mu.Unlock()
		return nil, nil, err
	}
	l.request++
	number := l.request
	l.running, l.ended, l.until, l.sent = true, false, until, time.Time{}
	c := l.conn
	if c != nil && c.login == l.node.login.number() {
		_ = c.Conn.SetDeadline(until) // go-redis does not set one everywhere
		c = nil
	}
	l.mu.Unlock()
	if c != nil {
		_ = c.Close() // it has old credentials
	}
	if ctx.Done() == nil {
		return ctx, func() bool { return true }, nil
	}
	return context.WithoutCancel(ctx), context.AfterFunc(ctx, func() { l.interrupt(number) }), nil
}

// end ends a request for which go-redis has returned err. It returns nil or an error reply if the server has
// answered. Otherwise it returns why the request has ended, which is late if its time was up. sent is not zero
// if the server may have got the request.
func (l *lane) end(ctx context.Context, err error, late error) (sent time.Time, reason error) {
	now := time.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.running, l.usedAt = false, now
	if l.cancel != nil {
		l.cancel()
		l.cancel = nil
	}
	switch {
	case IsAnswered(err):
	case l.closed != nil:
		err = l.closed
	case ctx.Err() != nil:
		err = ctx.Err()
	case !now.Before(l.until):
		err = late
	}
	return l.sent, err
}

// reset forgets the calls of a request, whose arguments and ctx are the caller's.
func (l *lane) reset() {
	clear(l.calls)
	l.calls, l.cmd = l.calls[:0], redis.Cmd{}
}

// interrupt ends a request, unless it has ended.
func (l *lane) interrupt(request uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.running && l.request == request {
		l.endNow()
	}
}

// close ends the request that is running, and all later ones, with an error.
func (l *lane) close(reason error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = cmp.Or(l.closed, reason)
	l.endNow()
}

// endNow makes go-redis return. The caller holds mu.
func (l *lane) endNow() {
	l.ended = true
	if l.cancel != nil {
		l.cancel()
	}
	if l.conn != nil {
		_ = l.conn.Conn.SetDeadline(longAgo) // Close could block
	}
}

// bind returns a context for a function of the user. It ends with the request that has the lane. Without a
// lane, it is ctx.
func (l *lane) bind(ctx context.Context) (context.Context, func()) {
	if l == nil {
		return ctx, func() {}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	ctx, cancel := context.WithDeadline(ctx, l.until)
	if l.ended || !l.running {
		cancel()
	}
	l.cancel = cancel
	return ctx, cancel
}

// connected marks the connection of the lane as ready for requests, behind a server that may be another one.
func (l *lane) connected() {
	if l == nil {
		return
	}
	l.node.notices.links.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conn != nil {
		l.conn.ready = true
	}
}

// limit returns the deadline to set for one that go-redis wants: the time of the request is the latest, and a
// request that was interrupted has no time left. The caller holds mu.
func (l *lane) limit(t time.Time) time.Time {
	switch {
	case l.ended:
		return longAgo
	case l.running && (t.IsZero() || t.After(l.until)):
		return l.until
	}
	return t
}
