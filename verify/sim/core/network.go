// The network, which loses, delays, doubles and refuses messages.

package core

import (
	"context"
	"errors"
	"time"

	"github.com/leasewheel/leasewheel/internal/simrand"
)

// Errors of the network. None of them is an answer.
var (
	errTimeout = errors.New("sim: no answer in time")
	errRefused = errors.New("sim: connection refused")
	errReset   = errors.New("sim: connection reset")
)

// message identifies a request. Its fate depends on nothing else but the seed.
type message struct {
	op    string
	owner string // of the lease, or of the first of a batch
	nth   int    // the number of the request among those of this operation and owner
}

// fate is what the network does to a message.
type fate struct {
	out, back   time.Duration
	lostRequest bool
	lostReply   bool
	refused     bool // the client gets an error at once, and nothing is executed
	reset       bool // the client notices the loss when the answer would have arrived
	again       time.Duration
	rand        simrand.Rand // for draws of the operation
}

// odds returns those of the plan, until Heal.
func (b *backend) odds() odds {
	if b.healed.Load() {
		return odds{}
	}
	return b.plan.net
}

// fateOf draws the fate of a message.
func (p *process) fateOf(m message) fate {
	b := p.backend
	d := simrand.New(b.plan.Seed, 4, uint64(p.ID), simrand.Hash(m.op), simrand.Hash(b.Serial(m.owner)), uint64(m.nth))
	f := fate{out: d.Between(50*time.Microsecond, 5*time.Millisecond), back: d.Between(50*time.Microsecond, 5*time.Millisecond), rand: d}
	odds, ttl := b.odds(), b.plan.TTL
	if b.plan.class == single { // no answer may be late
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
	b := p.backend
	caller := simrand.Mix(simrand.Hash(m.op), simrand.Hash(b.Serial(m.owner)), uint64(m.nth))
	p.Pauser.Await(caller)
	defer p.Pauser.Await(caller)
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	answers := make(chan any, 1)
	b.Pending.Go(func() { p.travel(m, f, execute, answers) })
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

// travel delivers a message to the server, and the answer to the client.
func (p *process) travel(m message, f fate, execute func() any, answers chan<- any) {
	b := p.backend
	if p.blocked(&p.cutTo, "request in a partition") {
		return
	}
	time.Sleep(f.out)
	switch {
	case f.refused:
		b.Count(b.Counts.Faults, "refused")
		answers <- errRefused
		return
	case f.lostRequest:
		b.Count(b.Counts.Faults, "lost request")
		f.report(answers)
		return
	case b.isDown():
		b.Count(b.Counts.Faults, "request while down")
		answers <- errRefused
		return
	}
	answer := b.execute(p, m, execute)
	if f.out > 10*time.Millisecond {
		b.Count(b.Counts.Faults, "late request")
	}
	if f.again > 0 {
		b.Count(b.Counts.Faults, "twice")
		b.Pending.Go(func() {
			time.Sleep(f.again)
			if !b.isDown() {
				b.execute(p, m, execute)
			}
		})
	}
	time.Sleep(f.back)
	switch {
	case f.lostReply:
		b.Count(b.Counts.Faults, "lost reply")
		f.report(answers)
	case p.blocked(&p.cutFrom, "reply in a partition"):
	default:
		if f.back > 10*time.Millisecond {
			b.Count(b.Counts.Faults, "slow reply")
		}
		answers <- answer
	}
}

// report reports a loss, if the client can notice it.
func (f fate) report(answers chan<- any) {
	if f.reset {
		answers <- errReset
	}
}

// blocked reports whether a partition stops a message.
func (p *process) blocked(until *time.Time, name string) bool {
	b := p.backend
	b.Mu.Lock()
	defer b.Mu.Unlock()
	if !time.Now().Before(*until) {
		return false
	}
	b.Counts.Faults[name]++
	return true
}

func (b *backend) isDown() bool {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	return time.Now().Before(b.downUntil)
}

// execute executes an operation on the server.
func (b *backend) execute(p *process, m message, step func() any) any {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	answer := step()
	b.Note("p%d %s %s #%d: %v", p.ID, m.op, b.Serial(m.owner), m.nth, answer)
	return answer
}

// sending counts a request, and records its fate.
func (b *backend) sending(p *process, m message, batch int, f fate) {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	b.Counts.Operations[m.op]++
	switch {
	case f.refused:
		b.Note("p%d sends %s %s #%d of %d, refused", p.ID, m.op, b.Serial(m.owner), m.nth, batch)
	case f.fails():
		b.Note("p%d sends %s %s #%d of %d, lost (request %v, known %v)", p.ID, m.op, b.Serial(m.owner), m.nth, batch, f.lostRequest, f.reset)
	}
}
