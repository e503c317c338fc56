// The network, which loses, delays, doubles and refuses messages.

package core

import (
	"context"
	"errors"
	"time"

	"github.com/leasewheel/leasewheel/internal/simrand"
	"github.com/leasewheel/leasewheel/verify/sim"
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

// fate is what the network does to a message, and draws for its operation.
type fate struct {
	sim.Fate
	rand simrand.Rand
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
	d := simrand.New(b.plan.Seed, 4, uint64(p.ID), simrand.Hash(m.op), simrand.Hash(b.Names.Of(m.owner)), uint64(m.nth))
	f := fate{b.odds().Draw(d, b.plan.TTL, 5*time.Millisecond), d}
	if b.plan.class == single { // no answer may be late
		f.Out, f.Back = f.Out/5, f.Back/5
	}
	return f
}

// call sends a request and waits for its answer, at most until ctx ends or the
// timeout has passed. The request may be executed later, and twice.
func (p *process) call(ctx context.Context, timeout time.Duration, m message, f fate, execute func() any) (any, error) {
	b := p.backend
	caller := simrand.Mix(simrand.Hash(m.op), simrand.Hash(b.Names.Of(m.owner)), uint64(m.nth))
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
	time.Sleep(f.Out)
	switch {
	case f.Refused:
		b.Count(b.Counts.Faults, "refused")
		answers <- errRefused
		return
	case f.LostRequest:
		b.Count(b.Counts.Faults, "lost request")
		f.report(answers)
		return
	case b.isDown():
		b.Count(b.Counts.Faults, "request while down")
		answers <- errRefused
		return
	}
	answer := b.execute(p, m, execute)
	if f.Out > 10*time.Millisecond {
		b.Count(b.Counts.Faults, "late request")
	}
	if f.Again > 0 {
		b.Count(b.Counts.Faults, "twice")
		b.Pending.Go(func() {
			time.Sleep(f.Again)
			if !b.isDown() {
				b.execute(p, m, execute)
			}
		})
	}
	time.Sleep(f.Back)
	switch {
	case f.LostReply:
		b.Count(b.Counts.Faults, "lost reply")
		f.report(answers)
	case p.blocked(&p.cutFrom, "reply in a partition"):
	default:
		if f.Back > 10*time.Millisecond {
			b.Count(b.Counts.Faults, "slow reply")
		}
		answers <- answer
	}
}

// report reports a loss, if the client can notice it.
func (f fate) report(answers chan<- any) {
	if f.Reset {
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
	b.Note("p%d %s %s #%d: %v", p.ID, m.op, b.Names.Of(m.owner), m.nth, answer)
	return answer
}

// sending counts a request, and records its fate.
func (b *backend) sending(p *process, m message, batch int, f fate) {
	b.Mu.Lock()
	defer b.Mu.Unlock()
	b.Counts.Operations[m.op]++
	if f.Name != "" {
		b.Note("p%d sends %s %s #%d of %d: %s (known %v)", p.ID, m.op, b.Names.Of(m.owner), m.nth, batch, f.Name, f.Reset)
	}
}
