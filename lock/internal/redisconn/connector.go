package redisconn

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// connectTimeout bounds the dial and the handshake of a connection. On a slow link the
	// handshake needs several round trips.
	connectTimeout = 10 * time.Second

	// A waiter that has no connection after slowDial has a second one dialed. On a slow
	// link the first may come too late for the renewal that waits for it, and the next
	// try then finds the second one ready. After staleDial other connections are dialed
	// instead, because the first dial may have begun before the network recovered.
	slowDial  = 10 * time.Millisecond
	staleDial = time.Second

	maxPending = 64 // connections to a node that are being made, stale ones included
	maxSpare   = 2  // connections to a node that are kept for the next waiters
)

// connector makes the connections of one node, for all its clients. It calls the user's
// functions (the Dialer, TLS, credentials, OnConnect) and does the whole handshake on
// goroutines of its own. A request that waits for a connection can therefore give up at
// any time. The connection is still completed, and the next request uses it.
type connector struct {
	ctx        context.Context // ends with close
	cancel     context.CancelFunc
	goroutines *sync.WaitGroup // of the client; counts the goroutines of the connector
	handshaker *handshaker
	trust      trust
	slowLinks  atomic.Uint64 // how many connections took longer than slowDial to make

	// onLink is called without the mutex when a connection has been made that was dialed
	// after the request with that number. It is set before the connector is used.
	onLink func(dialed uint64)

	mu      sync.Mutex // guards all below
	closed  bool
	pending map[*pendingLink]struct{} // being made
	waiters []*linkWaiter             // first come, first served
	spare   []*link                   // ready, with no waiter
}

// pendingLink is a connection that is being made.
type pendingLink struct {
	dialed uint64 // the number of the latest request before the dial
	begun  time.Time
}

// linkWaiter is a call of get that waits for a connection. It receives exactly one result,
// unless it is removed from the waiters.
type linkWaiter struct{ result chan linkResult }

type linkResult struct {
	link *link
	err  error
}

// newConnector returns the connector of the node with the options o. It makes connections
// until ctx ends or it is closed, on goroutines that it adds to goroutines.
func newConnector(ctx context.Context, goroutines *sync.WaitGroup, o redis.Options) *connector {
	c := &connector{
		goroutines: goroutines,
		onLink:     func(uint64) {},
		pending:    make(map[*pendingLink]struct{}),
	}
	c.handshaker = newHandshaker(o, &c.trust)
	c.ctx, c.cancel = context.WithCancel(ctx)
	return c
}

// clientOptions returns the options of a go-redis client that gets its connections from
// the connector.
func (c *connector) clientOptions() redis.Options {
	o := c.handshaker.options
	o.Dialer = hideDialErrors(c.get)
	o.OnConnect = nil
	o.DialTimeout = connectTimeout // usually, the ctx of the request ends first
	o.Username, o.Password, o.DB, o.ClientName = "", "", 0, ""
	o.CredentialsProvider, o.CredentialsProviderContext, o.StreamingCredentialsProvider = nil, nil, nil
	return o
}

// get returns a connection, complete with the handshake. It is the Dialer of the clients.
func (c *connector) get(ctx context.Context, _, _ string) (net.Conn, error) {
	if ctx.Value(noDial{}) != nil {
		return nil, errNoDial
	}
	w := &linkWaiter{result: make(chan linkResult, 1)}
	for {
		l, ok := c.takeSpare(w)
		if !ok {
			return nil, redis.ErrClosed
		}
		if l == nil {
			break
		}
		if l.isAlive() {
			return l, nil
		}
		_ = l.Close()
	}
	timer := time.NewTimer(slowDial)
	defer timer.Stop()
	for {
		select {
		case r := <-w.result:
			if r.err != nil {
				return nil, r.err
			}
			return r.link, nil
		case <-timer.C:
			c.startExtra()
			timer.Reset(staleDial)
		case <-ctx.Done():
			c.removeWaiter(w)
			return nil, context.Cause(ctx)
		case <-c.ctx.Done():
			c.removeWaiter(w)
			return nil, redis.ErrClosed
		}
	}
}

// takeSpare returns a spare connection. If there is none, it returns nil and adds w to the
// waiters. It reports false if the connector is closed.
func (c *connector) takeSpare(w *linkWaiter) (l *link, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, false
	}
	if last := len(c.spare) - 1; last >= 0 {
		l = c.spare[last]
		c.spare = c.spare[:last]
		return l, true
	}
	c.waiters = append(c.waiters, w)
	if c.freshPending() < len(c.waiters) {
		c.start()
	}
	return nil, true
}

// startExtra starts a connection unless more fresh ones than waiters are pending.
func (c *connector) startExtra() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.freshPending() <= len(c.waiters) {
		c.start()
	}
}

// startFirst starts a connection if no fresh one is pending.
func (c *connector) startFirst() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.freshPending() == 0 {
		c.start()
	}
}

// startProbe starts a connection to find out whether the server answers, unless one is
// pending that was dialed after the request with that number.
func (c *connector) startProbe(number uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for p := range c.pending {
		if p.dialed >= number {
			return
		}
	}
	if c.freshPending() <= len(c.waiters)+1 {
		c.start()
	}
}

// removeWaiter removes w from the waiters. If w has already received a connection, the
// next waiter gets it.
func (c *connector) removeWaiter(w *linkWaiter) {
	c.mu.Lock()
	for i, other := range c.waiters {
		if other == w {
			c.waiters = append(c.waiters[:i], c.waiters[i+1:]...)
			break
		}
	}
	c.mu.Unlock()
	select {
	case r := <-w.result:
		if r.err == nil {
			c.deliver(r.link)
		}
	default:
	}
}

// freshPending counts the pending connections that are not stale. The caller holds mu.
func (c *connector) freshPending() int {
	n := 0
	for p := range c.pending {
		if time.Since(p.begun) < staleDial {
			n++
		}
	}
	return n
}

// start starts a connection, unless too many are pending. The caller holds mu.
func (c *connector) start() {
	if c.closed || len(c.pending) >= maxPending {
		return
	}
	p := &pendingLink{dialed: c.trust.latestRequest(), begun: time.Now()}
	c.pending[p] = struct{}{}
	c.goroutines.Go(func() { c.connect(p) })
}

// connect makes the connection p. It also returns a result if a function of the user
// panics or calls runtime.Goexit.
func (c *connector) connect(p *pendingLink) {
	var l *link
	err := errors.New("a function of redis.Options called runtime.Goexit")
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("a function of redis.Options panicked: %v", v)
		}
		c.finish(p, l, err)
	}()
	ctx, cancel := context.WithTimeout(c.ctx, connectTimeout)
	defer cancel()
	l, err = c.handshaker.connect(ctx, p.dialed)
}

// finish passes a connection on. If it has failed, the first waiter gets the error, unless
// as many fresh connections are pending as there are waiters.
func (c *connector) finish(p *pendingLink, l *link, err error) {
	if err == nil {
		if time.Since(p.begun) > slowDial {
			c.slowLinks.Add(1)
		}
		c.onLink(p.dialed)
		c.removePending(p)
		c.deliver(l)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, p)
	if len(c.waiters) > 0 && c.freshPending() < len(c.waiters) {
		c.popWaiter().result <- linkResult{err: err}
	}
}

func (c *connector) removePending(p *pendingLink) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, p)
}

// popWaiter removes and returns the first waiter. The caller holds mu.
func (c *connector) popWaiter() *linkWaiter {
	w := c.waiters[0]
	c.waiters = c.waiters[1:]
	return w
}

// deliver gives a connection to the first waiter. If there is none, it keeps the connection
// as a spare one, and closes the oldest spare one if there are too many.
func (c *connector) deliver(l *link) {
	c.mu.Lock()
	var surplus *link
	switch {
	case c.closed:
		surplus = l
	case len(c.waiters) > 0:
		c.popWaiter().result <- linkResult{link: l}
	default:
		l.guard(c.goroutines)
		c.spare = append(c.spare, l)
		if len(c.spare) > maxSpare {
			surplus = c.spare[0]
			c.spare = append(c.spare[:0], c.spare[1:]...)
		}
	}
	c.mu.Unlock()
	if surplus != nil {
		_ = surplus.Close()
	}
}

// close cancels the pending connections and closes the spare ones. It does not wait for
// the goroutines of the connector.
func (c *connector) close() {
	c.cancel()
	c.mu.Lock()
	c.closed = true
	spare := c.spare
	c.spare = nil
	c.mu.Unlock()
	c.goroutines.Go(c.handshaker.credentials.close)
	for _, l := range spare {
		_ = l.Close()
	}
}
