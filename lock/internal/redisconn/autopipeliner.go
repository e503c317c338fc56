package redisconn

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	// maxDirect is the maximum number of direct calls, each with its own connection, that
	// do not wait for each other. Further calls cost less in a pipeline.
	maxDirect = 8

	// maxPipelines is the maximum number of pipelines in flight to a node while it answers
	// in time. While the server executes one, the other is written or read. A second one
	// does not pay off for fewer than minSecondPipeline calls.
	maxPipelines      = 2
	minSecondPipeline = 16

	// stallTimeout is how long a call stays in the queue before another connection is
	// used, because the pipelines in flight do not return.
	stallTimeout = time.Millisecond

	// maxPipelineCalls and maxPipelineBytes bound one pipeline. The last call of a pipeline
	// may exceed the bytes.
	maxPipelineCalls = 128
	maxPipelineBytes = 64 << 10
)

// autoPipeliner sends the single scripts of a node. A call that finds few others in flight
// is sent at once, on the goroutine of its caller. Other calls wait in a queue until a
// pipeline or a direct call returns, and then share one pipeline. The more calls there are,
// the less each costs. No call waits for others to arrive.
//
// A failed connection fails the calls that it carried. A call is sent at most once.
//
// A call passes these states:
//
//	state     entered by                             leaves to
//	direct    takeDirect: few calls, idle conn       done (process returns, putBack)
//	queued    enqueue: all other calls               sent, dropped, done
//	sent      takeLocked: a pipeline takes it        done, dropped
//	dropped   do, sendAll: the caller has returned   (takeLocked skips it; deliver has no effect)
//	done      deliver, the first time
//
// A queue that is not empty has its next pipeline started by one of these events:
//
//	event                                          condition
//	enqueue                                        nothing in flight, or worth a second pipeline
//	putBack, when a direct call returns            no pipeline in flight
//	nextBatch, when a pipeline returns             not more pipelines in flight than needed
//	flushStalled, after stallTimeout in the queue  a connection is free
type autoPipeliner struct {
	directConns []*directConn
	pipelined   *redis.Client
	detector    *stallDetector
	calls       *calls
	maxConns    int // connections in use at one time

	mu        sync.Mutex    // guards all below
	answering bool          // the server has answered the latest request
	idle      []*directConn // the most recently used one is last
	inFlight  int           // calls, direct and in pipelines
	pipelines int           // pipelines in flight
	queue     []*call       // waiting to be sent
}

// call is a script that shares a pipeline with others.
type call struct {
	args      []any
	asking    bool       // ASKING must precede the script
	askingCmd *redis.Cmd // if asking
	cmd       *redis.Cmd
	until     time.Time
	taken     atomic.Bool // by a pipeline
	dropped   atomic.Bool // the caller has returned
	answer    answer
	done      chan answer
}

// answer is the result of a script.
type answer struct {
	value any
	sent  time.Time // an instant before the script was sent
	err   error
}

func newAutoPipeliner(o redis.Options, detector *stallDetector, cs *calls) *autoPipeliner {
	o.PipelinePoolSize = -1 // pipelines use the connections of the main pool
	d := &autoPipeliner{detector: detector, calls: cs, maxConns: o.PoolSize}
	for range min(maxDirect, d.maxConns) {
		d.directConns = append(d.directConns, newDirectConn(o, detector))
	}
	o.PoolSize *= 2 // a connection may return to the pool shortly after its pipeline has ended
	d.pipelined = redis.NewClient(&o)
	d.idle = slices.Clone(d.directConns)
	return d
}

func (d *autoPipeliner) close() error {
	err := d.pipelined.Close()
	for _, direct := range d.directConns {
		err = errors.Join(err, direct.rdb.Close())
	}
	return err
}

// do sends a script and returns its answer. It returns an error as soon as ctx ends, the
// client is closed, or the time is until. The caller has called calls.begin.
func (d *autoPipeliner) do(ctx context.Context, until time.Time, asking bool, args []any) answer {
	if direct := d.takeDirect(asking); direct != nil {
		value, sent, err := direct.process(ctx, until, args)
		answered := isAnswered(err)
		d.putBack(direct, answered)
		if !answered && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return answer{value, sent, err}
	}
	e := &call{args: args, asking: asking, until: until, done: make(chan answer, 1)}
	d.enqueue(e)
	a := d.wait(ctx, e)
	if a.err != nil {
		e.dropped.Store(true)
	}
	return a
}

// takeDirect returns a connection for a call that may be sent directly, or nil.
func (d *autoPipeliner) takeDirect(asking bool) *directConn {
	d.mu.Lock()
	defer d.mu.Unlock()
	last := len(d.idle) - 1
	if asking || !d.answering || last < 0 || d.inFlight >= maxDirect || len(d.queue) > 0 {
		return nil
	}
	direct := d.idle[last]
	d.idle = d.idle[:last]
	d.inFlight++
	return direct
}

// putBack makes a direct connection idle. It starts a pipeline if calls have been queued
// meanwhile.
func (d *autoPipeliner) putBack(direct *directConn, answered bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answering = answered
	d.idle = append(d.idle, direct)
	d.inFlight--
	if len(d.queue) > 0 && d.pipelines == 0 {
		d.dispatch()
	}
}

// sendAll sends the calls that were not sent yet, and those that failed with NOSCRIPT. It
// returns when each has an answer or an error. setCommand is byDigest or inFull of Script.
func (d *autoPipeliner) sendAll(ctx context.Context, until time.Time, list []*Call, setCommand func(sc *Script, args []any)) {
	for _, c := range list {
		if c.call != nil && !isNoScript(c.Err) {
			continue
		}
		args := c.Args
		if c.call != nil {
			args = slices.Clone(args) // go-redis may still read the arguments of the first try
		}
		setCommand(c.Script, args)
		c.call, c.Err = &call{args: args, until: until, done: make(chan answer, 1)}, errNotAnswered
		d.enqueue(c.call)
	}
	for _, c := range list {
		if errors.Is(c.Err, errNotAnswered) {
			a := d.wait(ctx, c.call)
			if c.Reply, c.Err = a.value, a.err; c.Err != nil {
				c.call.dropped.Store(true)
			}
		}
	}
}

var errNotAnswered = errors.New("no answer yet")

// enqueue adds a call to the queue. It starts a pipeline if nothing in flight would do so
// later, or if the queue is long enough for a second pipeline.
func (d *autoPipeliner) enqueue(e *call) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.queue = append(d.queue, e)
	if busy := d.busyConns(); busy == 0 || busy < min(maxPipelines, d.maxConns) && len(d.queue) >= minSecondPipeline {
		d.dispatch()
	}
}

// busyConns returns the number of connections that are in use. The caller holds mu.
func (d *autoPipeliner) busyConns() int { return d.pipelines + len(d.directConns) - len(d.idle) }

// wait returns the answer of a call. If the pipelines in flight stall, wait starts another
// one for the queue. That pipeline may not take this call either, because it is bounded, so
// wait keeps checking.
func (d *autoPipeliner) wait(ctx context.Context, e *call) answer {
	pause := stallTimeout
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case a := <-e.done:
			return a
		case <-ctx.Done():
			return answer{err: context.Cause(ctx)}
		case <-d.calls.closing:
			return answer{err: ErrClosed}
		case now := <-timer.C:
			left := e.until.Sub(now)
			switch {
			case left <= 0:
				return answer{err: os.ErrDeadlineExceeded}
			case e.taken.Load():
				pause = left
			default:
				d.flushStalled()
				pause = min(2*pause, left)
			}
			timer.Reset(pause)
		}
	}
}

// flushStalled starts a pipeline for the queue if a connection is free.
func (d *autoPipeliner) flushStalled() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.queue) > 0 && d.busyConns() < d.maxConns {
		d.dispatch()
	}
}

// dispatch starts a pipeline for the queue. The caller holds mu and has called calls.begin,
// so that calls.running is not zero.
func (d *autoPipeliner) dispatch() {
	d.pipelines++
	d.calls.running.Go(d.run)
}

// run sends pipelines until the queue is empty, or the other pipelines in flight suffice.
func (d *autoPipeliner) run() {
	batch := d.takeBatch()
	for len(batch) > 0 {
		answered := batch.send(d.pipelined, d.detector)
		next := d.nextBatch(len(batch), answered)
		batch.deliver() // last: a caller that sends again must find the counts updated
		batch = next
	}
}

// takeBatch takes calls from the head of the queue. If it returns none, run must return.
func (d *autoPipeliner) takeBatch() pipeline {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.takeLocked()
}

// nextBatch is takeBatch after a pipeline of n calls has returned. It takes nothing, so
// that run returns, if the other pipelines in flight suffice for the queue.
func (d *autoPipeliner) nextBatch(n int, answered bool) pipeline {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answering = answered
	d.inFlight -= n
	if d.pipelines > maxPipelines || d.pipelines > 1 && len(d.queue) < minSecondPipeline {
		d.pipelines--
		return nil
	}
	return d.takeLocked()
}

// takeLocked is takeBatch for callers that hold mu.
func (d *autoPipeliner) takeLocked() pipeline {
	var batch pipeline
	bytes := 0
	for len(d.queue) > 0 && len(batch) < maxPipelineCalls && bytes < maxPipelineBytes {
		e := d.queue[0]
		d.queue[0] = nil
		d.queue = d.queue[1:]
		if !e.dropped.Load() {
			e.taken.Store(true)
			batch = append(batch, e)
			bytes += e.size()
		}
	}
	if len(batch) == 0 {
		d.queue = nil // frees the array
		d.pipelines--
	}
	d.inFlight += len(batch)
	return batch
}

// size returns approximately how many bytes the call sends.
func (e *call) size() int {
	n := 0
	for _, arg := range e.args {
		if text, ok := arg.(*string); ok {
			n += len(*text)
		}
	}
	return n
}

// pipeline is a list of calls that are sent together on one connection.
type pipeline []*call

// send sends the calls and reports whether the server has answered any of them.
func (p pipeline) send(rdb *redis.Client, d *stallDetector) (answered bool) {
	until := p[0].until
	for _, e := range p {
		if e.until.After(until) {
			until = e.until
		}
	}
	bounded, cancel := context.WithDeadline(context.Background(), until)
	defer cancel()
	exchange := d.begin(until, p.giveUp)
	ctx := exchangeContext{bounded, exchange}
	pipe := rdb.Pipeline()
	for _, e := range p {
		if e.asking {
			e.askingCmd = askingCmd(ctx)
			_ = pipe.Process(ctx, e.askingCmd) // only queues the command
		}
		e.cmd = redis.NewCmd(ctx, e.args...)
		_ = pipe.Process(ctx, e.cmd)
	}
	_, err := pipe.Exec(ctx)
	for _, e := range p {
		e.answer = answer{e.cmd.Val(), exchange.began, e.cmd.Err()}
		if e.asking && e.askingCmd.Err() != nil {
			e.answer.err = e.askingCmd.Err()
		}
		// If the server refuses the connection, go-redis returns an error from Exec
		// but does not set it on the commands.
		if e.answer.err == nil && e.answer.value == nil {
			e.answer.err = err
		}
		answered = answered || isAnswered(e.answer.err)
	}
	d.end(exchange, answered)
	return answered
}

// deliver gives each call its answer.
func (p pipeline) deliver() {
	for _, e := range p {
		e.deliver(e.answer)
	}
}

// giveUp fails each call because the connection is dead. send returns later.
func (p pipeline) giveUp() {
	for _, e := range p {
		e.deliver(answer{err: deadConnError{}})
	}
}

// deliver gives the call its answer. Later answers are ignored.
func (e *call) deliver(a answer) {
	select {
	case e.done <- a:
	default:
	}
}
