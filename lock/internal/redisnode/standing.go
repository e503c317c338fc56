// The standing connection to a server that keeps leases: its end is noticed when it happens.

package redisnode

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
)

const (
	// pingInterval is how often the standing connection carries a PING. Load balancers close idle connections after 50 s (the
	// example of HAProxy) to 6 min.
	pingInterval = 20 * time.Second

	// A connection that ends after a longer silence than minPing gets PINGs twice as often from then on: the server, or something
	// in between, may have ended it because it was idle.
	minPing = 2 * time.Second

	// watchInterval is how often Sentinel, or a cluster, is asked for the master.
	watchInterval = time.Second

	// After the connection has ended, it is made again after a random pause from minRedial to maxRedial, to which
	// an outage adds 1/outageDivisor of its length so far. slowRedial is the longest pause, and the one after a server
	// has refused the connection.
	minRedial     = 10 * time.Millisecond
	maxRedial     = 50 * time.Millisecond
	outageDivisor = 100
	slowRedial    = 5 * time.Second

	// redialGap is the least time between two such dials of a client, to all its nodes.
	redialGap = 10 * time.Millisecond

	// holdDivisor makes the connection outlive the leases by an eighth, so that Hold need not note each lease.
	holdDivisor = 8
)

// standing is the standing connection of a node. It is a lane on which nothing is sent but PING and INFO. A read
// waits for its end in between.
type standing struct {
	*queue              // of one lane
	base   time.Time    // from which until counts
	until  atomic.Int64 // when the last lease ends, as far as it is known, in nanoseconds

	mu      sync.Mutex // guards running, and orders its end and Hold
	running bool       // the goroutine of stand exists
	master  string     // the address that Sentinel has named last; owned by that goroutine, as ping is
	ping    time.Duration
}

func (s *standing) lane() *lane { return s.idle[0] }

func (s *standing) conn() *conn {
	l := s.lane()
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.conn
}

// Hold informs the node that a lease on its server lasts for ttl from now. While leases last and somebody gets the
// events, the node keeps a standing connection. If that ends and can be made again, leases may be lost.
func (n *Node) Hold(ttl time.Duration) {
	s := &n.standing
	if n.calls.report.Load() == nil || s.until.Load() >= int64(time.Since(s.base)+ttl) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.until.Store(max(s.until.Load(), int64(time.Since(s.base)+ttl+ttl/holdDivisor)))
	if !s.running && n.ctx.Err() == nil && n.calls.Begin(n.ctx) == nil {
		s.running = true
		go n.stand()
	}
}

// holds reports whether leases last. If not, stand must return: the next Hold starts it again.
func (n *Node) holds() bool {
	s := &n.standing
	s.mu.Lock()
	defer s.mu.Unlock()
	s.running = n.lasts()
	return s.running
}

// lasts reports whether leases last.
func (n *Node) lasts() bool {
	return n.ctx.Err() == nil && int64(time.Since(n.standing.base)) < n.standing.until.Load()
}

// stand keeps the standing connection while leases last.
func (n *Node) stand() {
	defer n.calls.End()
	var down time.Time // since when there is no connection; zero before the first attempt has failed
	stood := false     // there was a connection
	for n.holds() {
		pause := minRedial + rand.N(maxRedial-minRedial)
		switch err := n.connect(); {
		case err == nil:
			if !down.IsZero() {
				n.notices.tell(n.id, "", true)
			}
			stood, down = true, time.Time{}
			n.watch()
			down = time.Now()
			if n.lasts() {
				n.drop(false) // they have probably ended as well, which nobody notices below TLS
			}
		case down.IsZero():
			down = time.Now()
			fallthrough
		default:
			if pause = min(pause+time.Since(down)/outageDivisor, slowRedial); isRefusal(err, stood) {
				pause = slowRedial
			}
		}
		if n.onWatch != nil {
			n.onWatch(true)
		}
		if basic.Sleep(n.ctx, pause) == nil {
			_ = basic.Sleep(n.ctx, n.calls.redialWait())
		}
	}
}

// connect makes the standing connection. It fails while the server loads its data or, as a replica, has none. If the
// server has not got the PING, the error is driver.NotSent.
func (n *Node) connect() error {
	b := Batch{dials: n.standing.conn() == nil}
	if b.dials && n.addr == FailoverAddr {
		n.standing.master = ""
		n.masterMoved()
	}
	ping := []call{{args: []any{"ping"}}}
	sent, err := n.standing.exec(n.ctx, n.standing.lane(), time.Now().Add(n.timeout), ping, &b)
	switch reply := ping[0].cmd; {
	case err != nil && sent.IsZero():
		return driver.NotSent.Error(err)
	case err != nil:
		return err
	case redis.HasErrorPrefix(reply.Err(), "NOPERM"): // an answer all the same
		return nil
	default:
		return reply.Err()
	}
}

// isRefusal reports whether the next attempt would meet the same refusal: the server has replied with an error that time
// does not heal, or something in between knows no PING.
func isRefusal(err error, stood bool) bool {
	var reply redis.Error
	if errors.As(err, &reply) {
		return !HasCode(reply, "LOADING") && !HasCode(reply, "MASTERDOWN")
	}
	return !stood && driver.VerdictOf(err) != driver.NotSent
}

// watch reads until the standing connection ends, another server is the master, or no lease lasts any more. The connection
// is closed then.
func (n *Node) watch() {
	s := &n.standing
	c := s.conn()
	if c == nil {
		return
	}
	defer func() { _ = c.Close() }()
	every := s.ping
	if n.onWatch != nil || n.addr == FailoverAddr {
		every = min(every, watchInterval)
	}
	var one [1]byte
	for idle := time.Duration(0); n.lasts(); {
		if !c.await(time.Now().Add(every)) {
			return
		}
		read := time.Now()
		if _, err := c.Read(one[:]); !isTimeoutError(err) {
			if idle += time.Since(read); idle > minPing {
				s.ping = max(minPing, min(s.ping, idle)/2)
			}
			return // ended, or a push that nobody has asked for
		}
		if n.onWatch != nil {
			n.onWatch(false)
		}
		if n.addr == FailoverAddr && n.masterMoved() {
			n.Leave()
			return
		}
		if idle += every; idle >= s.ping {
			idle = 0
			if n.connect() != nil || s.conn() != c { // it has ended before the PING
				return
			}
		}
	}
}

// await sets the deadline of a Read. It returns false if the lane is closed.
func (c *conn) await(until time.Time) bool {
	c.lane.mu.Lock()
	defer c.lane.mu.Unlock()
	c.timed = true
	return c.lane.closed == nil && c.Conn.SetReadDeadline(until) == nil
}

// isTimeoutError reports whether a deadline has passed, and not the TCP_USER_TIMEOUT of a dead peer.
func isTimeoutError(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout() && !errors.Is(err, syscall.ETIMEDOUT)
}

// masterMoved reports whether Sentinel names another master than before. go-redis asks Sentinel in the Dialer only, so this makes
// a connection.
func (n *Node) masterMoved() bool {
	ctx, cancel := context.WithTimeout(n.ctx, watchInterval)
	defer cancel()
	c, err := n.dial(ctx, "tcp", n.addr)
	if err != nil {
		return false
	}
	defer func() { _ = c.Close() }()
	if c.RemoteAddr() == nil {
		return false
	}
	before := n.standing.master
	n.standing.master = c.RemoteAddr().String()
	return before != "" && before != n.standing.master
}

// Leave ends the connections to a server that is not the master any more. Requests under way fail, so that no answer of the old
// master counts from now on. Later requests dial.
func (n *Node) Leave() { n.drop(true) }

// drop closes the connections of the other lanes. A request that is under way fails if interrupt is set; otherwise it keeps its
// connection.
func (n *Node) drop(interrupt bool) {
	for _, l := range n.all {
		if l == n.standing.lane() {
			continue
		}
		l.mu.Lock()
		c := l.conn
		if l.running {
			c = nil
			if interrupt {
				l.endNow()
			}
		}
		l.mu.Unlock()
		if c != nil {
			_ = c.Close()
		}
	}
}

// redialWait returns how long a standing connection waits for its turn to dial.
func (cs *Calls) redialWait() time.Duration {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	now := time.Now()
	if cs.redialAt.Before(now) {
		cs.redialAt = now
	}
	wait := cs.redialAt.Sub(now)
	cs.redialAt = cs.redialAt.Add(redialGap)
	return wait
}
