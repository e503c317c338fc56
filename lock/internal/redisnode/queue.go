// Queues, in which requests wait for lanes, and in which single scripts share pipelines.

package redisnode

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

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
// else for the answer to the call. It returns an error as soon as ctx ends, the client is closed, or the time is until.
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
