package sim

import (
	"context"
	"errors"
	"time"

	"github.com/leasewheel/leasewheel/verify/chance"
)

// Errors of the network. None of them is an answer.
var (
	errTimeout = errors.New("sim: no answer in time")
	errRefused = errors.New("sim: connection refused")
	errReset   = errors.New("sim: connection reset")
)

// message names a request, so that its fate depends on nothing else.
type message struct {
	op    string
	owner string // of the lease, or of the first of a batch
	nth   int    // of that operation and owner
}

// fate is what becomes of a message.
type fate struct {
	out, back   time.Duration
	lostRequest bool
	lostReply   bool
	refused     bool // at once, and it is not executed
	reset       bool // a loss is noticed when the answer would have come
	again       time.Duration
	dice        chance.Dice // for what the operation itself decides
}

// fateOf draws the fate of a message.
func (p *process) fateOf(m message) fate {
	w := p.world
	d := chance.New(w.plan.seed, 4, uint64(p.id), chance.Digest(m.op), chance.Digest(serial(m.owner)), uint64(m.nth))
	f := fate{out: d.Between(50*time.Microsecond, 5*time.Millisecond), back: d.Between(50*time.Microsecond, 5*time.Millisecond), dice: d}
	odds, ttl := w.plan.net, w.plan.ttl
	if w.plan.class == single { // what is in time must not be late
		f.out, f.back = f.out/5, f.back/5
	}
	n := d.IntN(1000)
	hit := func(chance int) bool { n -= chance; return n < 0 }
	switch {
	case hit(odds.lostRequest):
		f.lostRequest, f.reset = true, d.Chance(500)
	case hit(odds.lostReply):
		f.lostReply, f.reset = true, d.Chance(500)
	case hit(odds.refused):
		f.refused = true
	case hit(odds.late):
		f.out = d.UpTo(2 * ttl)
	case hit(odds.twice):
		f.again = d.UpTo(2 * ttl)
	case hit(odds.slow):
		f.out, f.back = d.UpTo(ttl/20), d.UpTo(ttl)
	}
	return f
}

func (f fate) fails() bool { return f.lostRequest || f.lostReply || f.refused }

// call sends a request and waits for its answer, at most until ctx ends or the
// timeout has passed. The request may be executed later, and twice.
func (p *process) call(ctx context.Context, timeout time.Duration, m message, f fate, execute func() any) (any, error) {
	w := p.world
	caller := chance.Mix(chance.Digest(m.op), chance.Digest(serial(m.owner)), uint64(m.nth))
	p.gate.Pass(caller)
	defer p.gate.Pass(caller)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	answers := make(chan any, 1)
	w.traveling.Go(func() { p.travel(m, f, execute, answers) })
	select {
	case a := <-answers:
		if err, failed := a.(error); failed {
			return nil, err
		}
		return a, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-timer.C:
		return nil, errTimeout
	}
}

// travel is the way of a message to the server and back.
func (p *process) travel(m message, f fate, execute func() any, answers chan<- any) {
	w := p.world
	if p.blocked(&p.cutTo, "request in a partition") {
		return
	}
	time.Sleep(f.out)
	switch {
	case f.refused:
		w.count(w.counts.Faults, "refused")
		answers <- errRefused
		return
	case f.lostRequest:
		w.count(w.counts.Faults, "lost request")
		f.tell(answers)
		return
	case w.isDown():
		w.count(w.counts.Faults, "request while down")
		answers <- errRefused
		return
	}
	answer := w.execute(p, m, execute)
	if f.out > 10*time.Millisecond {
		w.count(w.counts.Faults, "late request")
	}
	if f.again > 0 {
		w.count(w.counts.Faults, "twice")
		w.traveling.Go(func() {
			time.Sleep(f.again)
			if !w.isDown() {
				w.execute(p, m, execute)
			}
		})
	}
	time.Sleep(f.back)
	switch {
	case f.lostReply:
		w.count(w.counts.Faults, "lost reply")
		f.tell(answers)
	case p.blocked(&p.cutFrom, "reply in a partition"):
	default:
		if f.back > 10*time.Millisecond {
			w.count(w.counts.Faults, "slow reply")
		}
		answers <- answer
	}
}

// tell reports a loss, if it shows.
func (f fate) tell(answers chan<- any) {
	if f.reset {
		answers <- errReset
	}
}

// blocked tells whether a partition stops a message.
func (p *process) blocked(until *time.Time, name string) bool {
	w := p.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if !time.Now().Before(*until) {
		return false
	}
	w.counts.Faults[name]++
	return true
}
