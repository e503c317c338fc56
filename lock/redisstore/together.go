package redisstore

import (
	"context"
	"errors"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/lock"
)

const (
	// few is how many calls go alone at one time: on connections of their own they need
	// not wait for each other. What more there is costs less together.
	few = 8

	// abreast is how many pipelines of a node are under way while they are answered
	// in time: while one is on the line and the server the other is read and made.
	// Below worthwhile requests there is one: two halves cost more than the whole.
	abreast    = 2
	worthwhile = 16

	// patience is how long a request waits for one of them to come back before it
	// has another connection used.
	patience = time.Millisecond

	// pipelineMost and pipelineBytes bound one pipeline, but for its last request.
	pipelineMost  = 128
	pipelineBytes = 64 << 10
)

// desk sends the single scripts of a node. What is asked for while little else is
// under way is sent at once, by its caller. What is asked for meanwhile gathers, and
// goes into one pipeline when something has come back: so the more there is to send the
// less each costs, and nobody waits for others to come.
//
// What fails on one connection fails for those whose requests it carried. A request
// is sent once at most.
type desk struct {
	soloists []*soloist
	together *redis.Client
	most     int // connections that are under way at one time

	mu      sync.Mutex // guards all below
	answers bool       // the last that was heard of the server is an answer
	idle    []*soloist // the last one is the last that was used
	asked   int        // scripts that are under way, alone and in pipelines
	out     int        // pipelines that are under way
	waiting []*errand  // to be sent
}

// errand is a request that is sent together with others.
type errand struct {
	args    []any
	asking  bool
	permit  *redis.Cmd // if asking
	cmd     *redis.Cmd
	until   time.Time
	taken   atomic.Bool // sent, or about to be
	dropped atomic.Bool // nobody waits for it
	answer  answer
	done    chan answer
}

// answer is what came of an errand.
type answer struct {
	value any
	err   error
}

func newDesk(o redis.Options, most int) *desk {
	o.PipelinePoolSize = -1 // none: pipelines have the connections of the main pool
	d := &desk{together: redis.NewClient(&o), most: most}
	for range min(few, most) {
		d.soloists = append(d.soloists, newSoloist(o))
	}
	d.idle = slices.Clone(d.soloists)
	return d
}

func (d *desk) close() error {
	err := d.together.Close()
	for _, solo := range d.soloists {
		err = errors.Join(err, solo.rdb.Close())
	}
	return err
}

// do sends a script and returns its answer; or why nobody waits for that any more,
// as soon as there is a reason: the end of ctx, the end of the store, or the instant.
// The caller has begun a call of the store.
func (d *desk) do(ctx context.Context, s *Store, until time.Time, asking bool, args []any) (any, error) {
	if solo := d.soloist(asking); solo != nil {
		cmd := redis.NewCmd(ctx, args...)
		err := solo.process(ctx, until, cmd)
		answered := isAnswered(err)
		d.back(s, solo, answered)
		if !answered && ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return cmd.Val(), err
	}
	e := &errand{args: args, asking: asking, until: until, done: make(chan answer, 1)}
	d.add(s, e)
	value, err := d.wait(ctx, s, e)
	if err != nil {
		e.dropped.Store(true)
	}
	return value, err
}

// soloist returns one for a call that may go alone, or nil.
func (d *desk) soloist(asking bool) *soloist {
	d.mu.Lock()
	defer d.mu.Unlock()
	last := len(d.idle) - 1
	if asking || !d.answers || last < 0 || d.asked >= few || len(d.waiting) > 0 {
		return nil
	}
	solo := d.idle[last]
	d.idle = d.idle[:last]
	d.asked++
	return solo
}

// back takes a soloist back. What has gathered meanwhile goes now.
func (d *desk) back(s *Store, solo *soloist, answered bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answers = answered
	d.idle = append(d.idle, solo)
	d.asked--
	if len(d.waiting) > 0 && d.out == 0 {
		d.dispatch(s)
	}
}

// add has an errand wait for a pipeline, which is sent at once if nothing is under way
// that it could wait for, or if it is worth another.
func (d *desk) add(s *Store, e *errand) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.waiting = append(d.waiting, e)
	if busy := d.busy(); busy == 0 || busy < min(abreast, d.most) && len(d.waiting) >= worthwhile {
		d.dispatch(s)
	}
}

// busy returns how many connections are under way. The caller holds mu.
func (d *desk) busy() int { return d.out + len(d.soloists) - len(d.idle) }

// wait waits for the answer of an errand. If it is not sent in time, because those
// that are under way hang, another connection is used for it; but nobody is sure to
// send it, so that is looked at again and again.
func (d *desk) wait(ctx context.Context, s *Store, e *errand) (any, error) {
	pause := patience
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case a := <-e.done:
			return a.value, a.err
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-s.closing:
			return nil, lock.ErrClosed
		case now := <-timer.C:
			left := e.until.Sub(now)
			switch {
			case left <= 0:
				return nil, os.ErrDeadlineExceeded
			case e.taken.Load():
				pause = left
			default:
				d.hurry(s)
				pause = min(2*pause, left)
			}
			timer.Reset(pause)
		}
	}
}

// hurry uses another connection for what waits.
func (d *desk) hurry(s *Store) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if len(d.waiting) > 0 && d.busy() < d.most {
		d.dispatch(s)
	}
}

// dispatch has what waits sent. The caller holds mu, and has begun a call of the
// store.
func (d *desk) dispatch(s *Store) {
	d.out++
	s.running.Go(d.run)
}

// run sends pipelines while there is something to send, and no more of them are
// under way than need be.
func (d *desk) run() {
	batch := d.take()
	for len(batch) > 0 {
		answered := batch.send(d.together)
		next := d.next(len(batch), answered)
		batch.tell() // who has an answer finds nothing under way any more, if there is not
		batch = next
	}
}

// take takes some of what waits, in order. If that is nothing, run ends, and is not
// counted any more.
func (d *desk) take() pipeline {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.taken()
}

// next is take after a pipeline of so many has come back. It takes nothing, and run
// ends, if the pipelines that are still under way are enough for what waits.
func (d *desk) next(n int, answered bool) pipeline {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answers = answered
	d.asked -= n
	if d.out > abreast || d.out > 1 && len(d.waiting) < worthwhile {
		d.out--
		return nil
	}
	return d.taken()
}

// taken is take for callers that hold mu.
func (d *desk) taken() pipeline {
	var batch pipeline
	bytes := 0
	for len(d.waiting) > 0 && len(batch) < pipelineMost && bytes < pipelineBytes {
		e := d.waiting[0]
		d.waiting[0] = nil
		d.waiting = d.waiting[1:]
		if !e.dropped.Load() {
			e.taken.Store(true)
			batch = append(batch, e)
			bytes += e.size()
		}
	}
	if len(batch) == 0 {
		d.waiting = nil // let go of the array
		d.out--
	}
	d.asked += len(batch)
	return batch
}

// size returns about how many bytes are to be sent.
func (e *errand) size() int {
	n := 0
	for _, arg := range e.args {
		if text, ok := arg.(*string); ok {
			n += len(*text)
		}
	}
	return n
}

// pipeline is what is sent at one time on one connection.
type pipeline []*errand

// send sends the errands and reports whether the server has answered any.
func (p pipeline) send(rdb *redis.Client) (answered bool) {
	until := p[0].until
	for _, e := range p {
		if e.until.After(until) {
			until = e.until
		}
	}
	ctx := deadline{context.Background(), until}
	pipe := rdb.Pipeline()
	for _, e := range p {
		if e.asking {
			e.permit = askingCmd(ctx)
			_ = pipe.Process(ctx, e.permit) // which only queues it
		}
		e.cmd = redis.NewCmd(ctx, e.args...)
		_ = pipe.Process(ctx, e.cmd)
	}
	_, err := pipe.Exec(ctx)
	for _, e := range p {
		e.answer = answer{e.cmd.Val(), e.cmd.Err()}
		if e.asking && e.permit.Err() != nil {
			e.answer.err = e.permit.Err()
		}
		// If the server refuses the connection itself, go-redis returns that error
		// and leaves the commands as if they had none.
		if e.answer.err == nil && e.answer.value == nil {
			e.answer.err = err
		}
		answered = answered || isAnswered(e.answer.err)
	}
	return answered
}

// tell tells each what has come of it.
func (p pipeline) tell() {
	for _, e := range p {
		e.done <- e.answer
	}
}

// isAnswered reports whether a command was answered, be it by a refusal.
func isAnswered(err error) bool {
	if err == nil {
		return true
	}
	var refusal redis.Error
	return errors.As(err, &refusal)
}
