// Lanes: go-redis clients with one connection each, the end of their requests, and the queues for them.

package redisnode

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/lock/driver"
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
	cold  bool      // a request has ended while its connection was being made

	mu       sync.Mutex      // guards all below
	conn     *conn           // nil: the next request dials
	running  bool            // a request has the lane
	request  uint64          // the number of the latest request
	seen     uint64          // request at the latest tick of Calls
	ctx      context.Context // of the request; nil between requests
	unfollow func() bool     // nil: nothing interrupts the request yet
	until    time.Time       // when the request ends
	ended    bool            // the request was interrupted
	closed   error           // nil, or why every request is interrupted
	cancel   func()          // ends the ctx of the function of the user that the request waits for
	sent     time.Time       // when the first bytes of the request were about to be written
	usedAt   time.Time       // when the latest request ended
}

// begin begins a request that ends at until, or with ctx. The caller calls end when go-redis has returned. inner is the
// ctx for go-redis, which does not end: go-redis would leave a dial behind, and the next request would wait for that.
func (l *lane) begin(ctx context.Context, until time.Time) (inner context.Context, err error) {
	l.mu.Lock()
	if err := l.closed; err != nil {
		l.mu.Unlock()
		return nil, err
	}
	l.request++
	l.running, l.ended, l.ctx, l.unfollow, l.until, l.sent = true, false, ctx, nil, until, time.Time{}
	c := l.conn
	if c != nil && c.login == l.node.login.number() && !c.suspect {
		if c.timed { // by the request before
			c.timed = false
			_ = c.Conn.SetDeadline(time.Time{})
		}
		c = nil
	}
	l.mu.Unlock()
	if c != nil {
		_ = c.Close() // it has old credentials, or may be dead
	}
	if time.Until(until) < tickTime { // nothing may be sent after that
		l.follow()
	} else {
		l.node.calls.nextTick() // which follows the request
	}
	if l.node.instrumented { // only hooks look for values
		return context.WithoutCancel(ctx), nil
	}
	return context.Background(), nil
}

// unfollowed reports whether the lane has a request whose ctx it does not follow, and whether it has got one since
// the last call.
func (l *lane) unfollowed() (running, fresh bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fresh = l.request != l.seen
	l.seen = l.request
	return l.running && l.unfollow == nil, fresh
}

// follow interrupts the request when its ctx ends or its time is up.
func (l *lane) follow() {
	l.mu.Lock()
	ctx, number := l.ctx, l.request
	l.mu.Unlock()
	if ctx == nil {
		return
	}
	stop := context.AfterFunc(ctx, func() { l.interrupt(number) }) // without mu, because the ctx may be the user's
	l.mu.Lock()
	current := l.running && l.request == number && l.unfollow == nil
	if current {
		l.unfollow = stop
		if c := l.conn; c != nil && !l.ended {
			c.timed = true
			_ = c.Conn.SetDeadline(l.until)
		}
	}
	l.mu.Unlock()
	if !current {
		stop()
	}
}

// end ends a request for which go-redis has returned err. It returns nil or an error reply if the server has
// answered. Otherwise it returns why the request has ended, which is late if its time was up. sent is not zero
// if the server may have got the request.
func (l *lane) end(ctx context.Context, err error, late error) (sent time.Time, reason error) {
	now := time.Now()
	l.mu.Lock()
	stop, cancel := l.unfollow, l.cancel
	l.running, l.ctx, l.unfollow, l.cancel, l.usedAt = false, nil, nil, nil, now
	sent = l.sent
	switch {
	case IsAnswered(err):
	case l.closed != nil:
		err = l.closed
	case ctx.Err() != nil:
		err = ctx.Err()
	case !now.Before(l.until):
		err = late
	}
	l.mu.Unlock()
	if stop != nil {
		stop()
	}
	if cancel != nil {
		cancel()
	}
	return sent, err
}

// warm makes a connection for the next request, because its dial and its handshake together take longer than some requests
// have. Requests wait meanwhile, so its time is bounded, too.
func (l *lane) warm() {
	l.cold = false
	ctx, bound := context.Background(), min(l.node.options.DialTimeout, 2*l.node.timeout)
	inner, err := l.begin(ctx, time.Now().Add(bound))
	if err == nil {
		_, _ = l.end(ctx, l.rdb.Do(inner, "ping").Err(), driver.NoAnswerError(bound))
	}
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
	if c := l.conn; c != nil {
		c.timed = true
		_ = c.Conn.SetDeadline(longAgo) // Close could block
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

const (
	// maxPipelineCalls and maxPipelineBytes bound one pipeline. The last call may exceed the bytes.
	maxPipelineCalls = 128
	maxPipelineBytes = 64 << 10
)

// queue has lanes. A request that finds an idle lane is sent at once, by its caller. Single scripts that find none
// wait until a lane is free, and share the next pipeline, which a goroutine of the node sends, so that no caller
// is cancelled for another. The more scripts there are, the less each costs. None waits for others to arrive, and
// each is sent at most once.
type queue struct {
	node  *Node
	bound time.Duration // of a request
	late  error         // of a request that exceeds bound

	mu      sync.Mutex // guards all below, and the elements of waiting
	idle    []*lane    // none while a request waits; the one that was used last comes last, and is used first:
	waiting []*queued  // after a request without an answer it dials, while others may have dead connections
}

// queued is a request that waits.
type queued struct {
	call
	alone bool          // it wants a lane, to send something itself
	until time.Time     // when it stops waiting
	done  chan struct{} // closed when the request has an answer or a lane

	taken  bool   // it is sent or has a lane, or stopped waiting
	lane   *lane  // if alone
	answer Answer // if not alone
}

// enter returns an idle lane, which the caller passes on. If there is none, it waits for one if alone is set, or
// else for the answer to the call. It returns an error when ctx ends, the client is closed, or the time is until, from the
// next tick on.
func (q *queue) enter(ctx context.Context, until time.Time, c call, alone bool) (*lane, Answer) {
	q.mu.Lock()
	if last := len(q.idle) - 1; last >= 0 {
		l := q.idle[last]
		q.idle = q.idle[:last]
		q.mu.Unlock()
		return l, Answer{}
	}
	e := &queued{call: c, alone: alone, until: until, done: make(chan struct{})}
	q.waiting = append(q.waiting, e)
	q.mu.Unlock()

	select {
	case <-e.done:
		return e.lane, e.answer
	case <-q.node.calls.nextTick():
	}
	limit := time.NewTimer(time.Until(until))
	defer limit.Stop()
	var a Answer
	select {
	case <-e.done:
		return e.lane, e.answer
	case <-ctx.Done():
		a.Err = ctx.Err()
	case <-q.node.calls.ctx.Done():
		a.Err = ErrClosed
	case <-limit.C:
		a.Err = q.late
	}
	q.mu.Lock()
	taken := e.taken
	e.taken = true
	q.mu.Unlock()
	switch {
	case taken && alone:
		q.pass(e.lane)
	case taken:
		a.Sent = until // it may be sent
	}
	return nil, a
}

// suspect makes the idle lanes dial for their next requests. What has silenced the connection of one lane, such as a
// firewall that has forgotten it, may have silenced theirs, and a second try is often the last.
func (q *queue) suspect() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, l := range q.idle {
		l.mu.Lock()
		if l.conn != nil {
			l.conn.suspect = true
		}
		l.mu.Unlock()
	}
}

// pass passes a lane to the requests that wait, or makes it idle.
func (q *queue) pass(l *lane) {
	var batch []*queued
	if !l.cold {
		if batch = q.next(l); len(batch) == 0 {
			return
		}
	}
	q.node.calls.running.Go(func() { q.work(l, batch) })
}

// work sends pipelines on a lane until no script waits. It begins with a batch, or with none if the lane is cold.
func (q *queue) work(l *lane, batch []*queued) {
	for more := true; more; {
		if len(batch) == 0 {
			l.warm()
			if batch = q.next(l); len(batch) == 0 {
				return
			}
		}
		until := batch[0].until
		for _, e := range batch {
			l.calls = append(l.calls, e.call)
			if e.until.After(until) {
				until = e.until
			}
		}
		sent, err := q.exec(context.Background(), l, until, l.calls, nil)
		for i, e := range batch {
			e.answer = l.calls[i].answer(sent, err)
		}
		answered := batch
		if batch = nil; !l.cold {
			batch = q.next(l)
			more = len(batch) > 0
		}
		for _, e := range answered { // last: a caller that sends again must find the queue updated
			close(e.done)
		}
	}
}

// next returns the calls of the next pipeline on a lane. If there are none, the lane is passed on or idle. The lane forgets
// its request, whose arguments and ctx are the caller's.
func (q *queue) next(l *lane) (batch []*queued) {
	clear(l.calls)
	l.calls, l.cmd = l.calls[:0], redis.Cmd{}
	q.mu.Lock()
	defer q.mu.Unlock()
	for bytes := 0; len(q.waiting) > 0 && len(batch) < maxPipelineCalls && bytes < maxPipelineBytes; {
		e := q.waiting[0]
		q.waiting[0] = nil
		q.waiting = q.waiting[1:]
		if e.taken {
			continue
		}
		e.taken = true
		if e.alone { // the requests of a queue are all alone, or none is
			e.lane = l
			close(e.done)
			return nil
		}
		batch = append(batch, e)
		bytes += e.size()
	}
	if len(batch) == 0 {
		q.idle = append(q.idle, l)
	}
	return batch
}
