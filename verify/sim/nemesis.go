// The nemesis, and the faults that concern no server.

package sim

import (
	"context"
	"time"

	"github.com/leasewheel/leasewheel/internal/simrand"
)

// Event is a fault, or something that a user rarely does.
type Event string

// Events of both backends. Each backend has more.
const (
	Pause       Event = "pause"
	CloseClient Event = "close"
)

// nemesis injects faults at random instants.
func (w *World) nemesis() {
	d := simrand.New(w.Plan.Seed, 8)
	for !w.over() && len(w.Plan.Events) > 0 {
		if w.Plan.Forgets {
			w.Mu.Lock()
			w.Backend.Snapshot()
			w.Mu.Unlock()
		}
		time.Sleep(w.Plan.Spacing + d.UpTo(w.Plan.Every))
		if w.over() {
			return
		}
		w.Backend.Inject(simrand.Pick(d, w.Plan.Events...), d)
	}
}

// CommonFault injects a fault that does not concern the servers, or returns false. The
// caller holds Mu.
func (w *World) CommonFault(e Event, p *Process, span time.Duration) bool {
	switch e {
	case Pause:
		p.Pauser.Pause(span)
	case CloseClient:
		w.Pending.Go(func() { p.close(span) })
	default:
		return false
	}
	return true
}

// prompt is how long after the end of its context a call may return. A request to Redis follows its context from
// a tick on.
const prompt = 10 * time.Millisecond

// close closes a client once, with a time limit, and checks the outcome.
func (p *Process) close(within time.Duration) {
	w := p.World
	w.Mu.Lock()
	if p.Closed {
		w.Mu.Unlock()
		return
	}
	p.Closed = true
	held := p.held()
	w.Mu.Unlock()
	p.Pauser.Await(0)
	lost := make(map[*Grant]bool) // lost leases, which only Unlock releases
	for _, g := range held {
		lost[g] = !g.Handle().Valid()
	}
	w.ending(held...)
	begun := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	err := p.Client.Close(ctx)
	took := time.Since(begun)
	if _, paused := p.Pauser.PausedSince(begun); took > within+prompt && !paused {
		w.Fail("close", "L5: Close of p%d took %v; its context lasted %v", p.ID, took, within)
	}
	for _, g := range held {
		if g.Handle().Valid() || !g.Ended() || g.Handle().Err() == nil {
			w.Fail("close", "p%d is closed, but its handle of %s is valid", p.ID, g.Key)
		}
	}
	if _, err := p.Client.Mutex("key 0").TryLock(context.Background()); err == nil {
		w.Fail("close", "p%d is closed, but Lock succeeded", p.ID)
	}
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Check("close")
	w.Note("p%d closed: %v", p.ID, err != nil)
	for _, g := range held {
		if err == nil && w.Plan.Tidy && !lost[g] && w.has(g) {
			w.Violated("close", "p%d is closed, but the server still has its lease of %s", p.ID, g.Key)
		}
	}
	if err != nil && w.Plan.Calm {
		w.Violated("close", "nothing failed, but Close of p%d returned %v", p.ID, err)
	}
}

// held returns the grants of a process that have handles. The caller holds World.Mu.
func (p *Process) held() (all []*Grant) {
	for _, g := range p.World.Grants {
		if g.Process == p && g.Handle() != nil {
			all = append(all, g)
		}
	}
	return all
}

// StopEngine closes the timer engine of a process, and then checks that all its handles report
// a loss.
func (p *Process) StopEngine() {
	w := p.World
	w.Mu.Lock()
	held := p.held()
	w.Mu.Unlock()
	p.CloseEngine()
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Check("engine closed")
	for _, g := range held {
		if !g.Ended() {
			w.Violated("told", "rule 8: the engine of p%d is closed, but the handle of %s reports no loss", p.ID, g.Key)
		}
	}
}

// Odds are the probabilities of the faults of a message, in thousandths.
type Odds struct{ LostRequest, LostReply, Refused, HalfReply, Late, Twice, Slow int }

// Fate is what the network does to a message.
type Fate struct {
	Out, Back time.Duration
	Name      string // of the failure; empty: none

	LostRequest, LostReply bool
	Refused                bool // the client gets an error at once, and nothing is executed
	HalfReply              bool

	Reset bool          // the client notices a loss when the answer would have arrived
	Again time.Duration // the delay of a second execution; 0: none
}

// Draw draws the fate of a message for locks with a TTL. Its way takes up to latency.
func (o Odds) Draw(d simrand.Rand, ttl, latency time.Duration) Fate {
	f := Fate{Out: d.Between(50*time.Microsecond, latency), Back: d.Between(50*time.Microsecond, latency)}
	n := d.IntN(1000)
	hit := func(perMille int) bool { n -= perMille; return n < 0 }
	switch {
	case hit(o.LostRequest):
		f.Name, f.LostRequest, f.Reset = "lost request", true, d.Chance(500)
	case hit(o.LostReply):
		f.Name, f.LostReply, f.Reset = "lost reply", true, d.Chance(500)
	case hit(o.Refused):
		f.Name, f.Refused = "refused", true
	case hit(o.HalfReply):
		f.Name, f.HalfReply = "half a reply", true
	case hit(o.Late):
		f.Out = d.UpTo(2 * ttl)
	case hit(o.Twice):
		f.Again = d.UpTo(2 * ttl)
	case hit(o.Slow): // an answer arrives shortly before the lease expires
		f.Out, f.Back = d.UpTo(ttl/20), d.UpTo(ttl)
	}
	return f
}
