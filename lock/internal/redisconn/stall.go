package redisconn

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// minStallTimeout is the shortest time without an answer after which a connection may be
// dead.
const minStallTimeout = 50 * time.Millisecond

// stallDetector notices the dead connections of a node. A firewall or a load balancer may
// forget connections that were idle without closing them. If a request has no answer for
// a while, the detector has a new connection made. If the handshake there succeeds first,
// the server is alive and the connection of the request is dead. The request then fails
// at once, and the connections that have been silent since it was sent are not used again.
type stallDetector struct {
	connector *connector
	trust     *trust
	latency   atomic.Int64 // of the last answer that came after its stall timeout; otherwise 0

	mu      sync.Mutex // guards all below, and some fields of each exchange
	stalled map[*exchange]struct{}
}

// exchange is a request that is in progress on some connection of a node.
//
// An exchange is not stalled while it waits for a connection, because that connection is
// still being made. If it gets a new connection, it begins again, so that the time for
// making the connection does not count as time without an answer.
type exchange struct {
	until   time.Time   // the deadline of the request
	timer   *time.Timer // calls onStall; nil if the deadline is too near for that
	giveUp  func()      // called when the connection is known to be dead; may be nil
	hasConn atomic.Bool // go-redis has a connection for the request

	// Guarded by stallDetector.mu, but the goroutine that sends the request may read
	// number and began without it.
	number       uint64    // of the request; see trust
	began        time.Time // before the request was written
	stallTimeout time.Duration
	ended        bool
}

// exchangeContext is the context of an exchange that go-redis gets.
type exchangeContext struct {
	context.Context
	exchange *exchange
}

// exchangeKey is the key of the *exchange in the context of its request.
type exchangeKey struct{}

// Value implements context.Context.
func (c exchangeContext) Value(key any) any {
	if key == (exchangeKey{}) {
		return c.exchange
	}
	return c.Context.Value(key)
}

// Deadline implements context.Context. go-redis calls it to set the deadline of a
// connection, and therefore not before it has one.
func (c exchangeContext) Deadline() (time.Time, bool) {
	c.exchange.setHasConn()
	return c.Context.Deadline()
}

// setHasConn records that go-redis has a connection for the request.
func (e *exchange) setHasConn() {
	if !e.hasConn.Load() {
		e.hasConn.Store(true)
	}
}

// newStallDetector returns the detector of the node whose connections c makes.
func newStallDetector(c *connector) *stallDetector {
	d := &stallDetector{connector: c, trust: &c.trust, stalled: make(map[*exchange]struct{})}
	c.onLink = d.failStalled
	return d
}

// onConnect is the OnConnect of the clients. go-redis calls it with the ctx of the request
// that gets a new connection, before it writes the request. If the ctx has ended, onConnect
// returns its error, because go-redis would write the request without looking at the ctx.
func (d *stallDetector) onConnect(ctx context.Context, _ *redis.Conn) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if e, ok := ctx.Value(exchangeKey{}).(*exchange); ok {
		d.restart(e)
	}
	return nil
}

// restart begins an exchange again.
func (d *stallDetector) restart(e *exchange) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if e.ended {
		return
	}
	e.setHasConn()
	delete(d.stalled, e)
	e.number, e.began = d.trust.nextRequest(), time.Now()
	d.resetTimer(e)
}

// resetTimer sets the timer of an exchange. The caller holds mu.
func (d *stallDetector) resetTimer(e *exchange) {
	timeout, ok := d.stallTimeout(time.Until(e.until))
	e.stallTimeout = timeout
	switch {
	case e.timer == nil:
	case ok:
		e.timer.Reset(timeout)
	default:
		e.timer.Stop()
	}
}

// begin begins an exchange with a deadline. giveUp is called at most once, on another
// goroutine, if the connection turns out to be dead.
func (d *stallDetector) begin(until time.Time, giveUp func()) *exchange {
	now := time.Now()
	e := &exchange{until: until, giveUp: giveUp, number: d.trust.nextRequest(), began: now}
	if timeout, ok := d.stallTimeout(until.Sub(now)); ok {
		e.stallTimeout = timeout
		d.mu.Lock() // otherwise onStall might not see e.timer
		e.timer = time.AfterFunc(timeout, func() { d.onStall(e) })
		d.mu.Unlock()
	}
	return e
}

// stallTimeout returns how long a request may have no answer before its connection is
// suspected. left is the time until its deadline. The timeout is a third of that, so that
// there is time for another try, or up to two thirds if answers have recently taken that
// long. It reports false if the deadline is too near.
func (d *stallDetector) stallTimeout(left time.Duration) (time.Duration, bool) {
	timeout := max(left/3, min(2*time.Duration(d.latency.Load()), left*2/3), minStallTimeout)
	return timeout, timeout < left
}

// onStall is called when an exchange has had no answer for its stall timeout. It has a new
// connection made, because the handshake shows whether the server answers.
func (d *stallDetector) onStall(e *exchange) {
	if number, ok := d.markStalled(e); ok {
		d.connector.startProbe(number)
	}
}

// markStalled adds an exchange to the stalled ones and returns its number. It reports
// false if the exchange has ended, has no connection, or has begun again.
func (d *stallDetector) markStalled(e *exchange) (number uint64, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case e.ended:
		return 0, false
	case !e.hasConn.Load():
		d.resetTimer(e)
		return 0, false
	case time.Since(e.began) < e.stallTimeout: // the timer fired before the exchange began again
		return 0, false
	}
	d.stalled[e] = struct{}{}
	return e.number, true
}

// end ends an exchange. If there was no answer, go-redis closes the connection, and end has
// another one made unless one is pending, so that the next request does not wait for it.
// If the exchange was also stalled, the connections that have been silent since it was
// sent are not used again.
func (d *stallDetector) end(e *exchange, answered bool) {
	if e.timer != nil {
		e.timer.Stop()
	}
	d.remove(e, answered)
	if !answered {
		d.connector.startFirst() // even if there are spare connections, which may be dead too
	}
}

func (d *stallDetector) remove(e *exchange, answered bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	e.ended = true
	if _, stalled := d.stalled[e]; !stalled {
		return
	}
	delete(d.stalled, e)
	if answered {
		d.latency.Store(int64(time.Since(e.began)))
	} else {
		d.trust.rejectSilent(e.number)
	}
}

// failStalled is called when a connection has been made that was dialed after the request
// with that number. The stalled requests up to that number went to dead connections.
func (d *stallDetector) failStalled(number uint64) {
	var dead []*exchange
	d.mu.Lock()
	for e := range d.stalled {
		if e.number <= number {
			dead = append(dead, e)
			delete(d.stalled, e)
			e.ended = true
			d.trust.rejectSilent(e.number)
			d.latency.Store(0)
		}
	}
	d.mu.Unlock()
	if len(dead) > 0 {
		d.connector.handshaker.notices.tell(DeadConn, 0, "")
	}
	for _, e := range dead {
		if e.giveUp != nil {
			e.giveUp()
		}
	}
}

// deadConnError is the error of a request whose connection is dead.
type deadConnError struct{}

// Error implements error.
func (deadConnError) Error() string {
	return "dead connection: no answer on it, but the server answers on a new one"
}

// Unwrap makes it match os.ErrDeadlineExceeded.
func (deadConnError) Unwrap() error { return os.ErrDeadlineExceeded }
