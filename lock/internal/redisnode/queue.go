// This file is about the queue of single scripts, which share pipelines under load.

package redisnode

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// maxDirect is the maximum number of calls that do not wait for each other, each on a connection
	// of its own. Further calls cost less in a pipeline.
	maxDirect = 8

	// maxPipelines is the maximum number of pipelines in flight to a node. While the server executes
	// one, the other is written or read. A second one does not pay off for fewer than
	// minSecondPipeline calls.
	maxPipelines      = 2
	minSecondPipeline = 16

	// maxPipelineCalls and maxPipelineBytes bound one pipeline. The last call may exceed the bytes.
	maxPipelineCalls = 128
	maxPipelineBytes = 64 << 10
)

// queue sends the single scripts of a node. A call that finds few others in flight is sent at once, by
// its caller. Other calls wait until a pipeline returns, and then share the next one. The more calls
// there are, the less each costs. No call waits for others to arrive, and each is sent at most once.
type queue struct {
	node  *Node
	conns int // the maximum in use at a time

	mu        sync.Mutex // guards all below
	inFlight  int        // calls, direct and in pipelines
	direct    int        // direct calls
	pipelines int        // pipelines in flight
	waiting   []*queued
}

// queued is a script that shares a pipeline with others.
type queued struct {
	scriptCall
	until   time.Time
	dropped atomic.Bool // the caller has returned
	done    chan Answer
}

// run sends a script and returns its answer. It returns an error as soon as ctx ends, the client is
// closed, or the time is until. The caller has called Calls.Begin.
func (q *queue) run(ctx context.Context, until time.Time, sc scriptCall) Answer {
	q.mu.Lock()
	if !sc.asking && q.inFlight < maxDirect && q.direct+q.pipelines < q.conns && len(q.waiting) == 0 {
		q.inFlight++
		q.direct++
		q.mu.Unlock()
		defer func() {
			q.mu.Lock()
			defer q.mu.Unlock()
			q.inFlight--
			q.direct--
			if len(q.waiting) > 0 {
				q.dispatch()
			}
		}()
		n := q.node
		r, err := n.calls.start(ctx, until, NoAnswerError(n.timeout), n, n.rdb)
		if err != nil {
			return Answer{Err: err}
		}
		r.cmd = timedCmd{Cmd: *redis.NewCmd(&r.ctx, sc.args...)}
		err = n.settle(r, n.rdb.Process(&r.ctx, &r.cmd))
		a := Answer{r.cmd.Val(), r.cmd.asked, err}
		n.calls.finish(r, err == nil && !n.instrumented) // a hook may keep the command
		return a
	}
	e := &queued{scriptCall: sc, until: until, done: make(chan Answer, 1)}
	q.waiting = append(q.waiting, e)
	q.dispatch()
	q.mu.Unlock()

	limit := time.NewTimer(time.Until(until))
	defer limit.Stop()
	var err error
	select {
	case a := <-e.done:
		return a
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-q.node.calls.ctx.Done():
		err = ErrClosed
	case <-limit.C:
		err = NoAnswerError(q.node.timeout)
	}
	e.dropped.Store(true)
	return Answer{Err: err, Sent: e.until} // it may be sent
}

// dispatch starts a pipeline for the calls that wait, unless those in flight suffice. The caller holds mu
// and has called Calls.Begin.
func (q *queue) dispatch() {
	if q.direct+q.pipelines < q.conns &&
		(q.pipelines == 0 || q.pipelines < maxPipelines && len(q.waiting) >= minSecondPipeline) {
		q.pipelines++
		q.node.calls.running.Go(q.work)
	}
}

// work sends pipelines until the queue is empty, or the other pipeline suffices.
func (q *queue) work() {
	batch := q.next(nil)
	for len(batch) > 0 {
		answers := q.node.sendAll(batch)
		next := q.next(batch)
		for i, e := range batch { // last: a caller that sends again must find the counts updated
			e.done <- answers[i]
		}
		batch = next
	}
}

// next takes the calls of the next pipeline. last has returned. If it takes none, work must return.
func (q *queue) next(last []*queued) (batch []*queued) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.inFlight -= len(last)
	if last == nil || q.pipelines == 1 || len(q.waiting) >= minSecondPipeline {
		for bytes := 0; len(q.waiting) > 0 && len(batch) < maxPipelineCalls && bytes < maxPipelineBytes; {
			if e := q.waiting[0]; !e.dropped.Load() {
				batch = append(batch, e)
				bytes += e.size()
			}
			q.waiting[0] = nil
			q.waiting = q.waiting[1:]
		}
	}
	if len(batch) == 0 {
		q.pipelines--
	}
	q.inFlight += len(batch)
	return batch
}
