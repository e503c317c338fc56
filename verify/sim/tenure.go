package sim

import (
	"context"
	"time"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

// tenure is one grant by the server, and what its client made of it. The world's mu
// guards its fields.
type tenure struct {
	tenureID
	owner   string
	process *process

	held *lock.Held // nil until its holder has it, or for ever
	done <-chan struct{}

	deadline time.Time // by the formula, from the last answer that confirmed it
	latest   time.Time // it never passes this; zero: there is no such end
	sent     time.Time // the latest renewal

	// void: what the promise of exclusion assumes was broken for this lease, by a
	// deleted key, lost data or a stepped clock of the server, and no renewal was
	// executed since.
	void   bool
	voidAt time.Time

	failures int           // renewals in a row without an answer
	left     time.Duration // to its deadline, when the latest renewal was sent
	denied   bool          // the store said that it is lost
	renewing bool          // in a call of Renew
	unlocked time.Time     // when Unlock was called
	gone     bool          // it has returned
	told     *renewal.LostError
	toldAt   time.Time
}

type tenureID struct {
	key   string
	token uint64
}

// granted: the server gave a lock to an owner. Nobody else may believe to have it.
// The caller holds mu.
func (w *world) granted(key, owner string, token uint64) {
	w.note("granted %s to p%d %s", key, w.owners[owner].id, serial(owner))
	w.check("token")
	if token <= w.last[key] {
		w.violated("token", "S3: %s got token %d after %d", key, token, w.last[key])
	}
	w.last[key] = token
	t := &tenure{tenureID: tenureID{key, token}, owner: owner, process: w.owners[owner]}
	for _, other := range w.tenures {
		if other.key == key && other.held != nil {
			w.excluded(other, t)
		}
	}
	w.tenures[t.tenureID] = t
}

// excluded checks a holder at the moment when another gets its lock.
func (w *world) excluded(t, by *tenure) {
	if t.void || t.ended() {
		return
	}
	w.check("exclusion")
	if t.held.Valid() {
		w.violated("exclusion", "S1: %s is granted to p%d while the handle of p%d is valid, its deadline %v away",
			t.key, by.process.id, t.process.id, time.Until(t.held.Deadline()))
	}
	_, still := t.process.gate.StoodStill(t.deadline)
	if w.moved == 0 && !still && !t.process.crashed && !closed(t.done) {
		w.violated("exclusion", "S2: %s is granted to p%d before p%d was told", t.key, by.process.id, t.process.id)
	}
}

// ended tells whether the holder was told before, or has unlocked.
func (t *tenure) ended() bool { return closed(t.done) }

func closed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// kept: the server gave the lease its full TTL again. The caller holds mu.
func (w *world) kept(key string, token uint64) {
	if t := w.tenures[tenureID{key, token}]; t != nil {
		t.void = false
	}
}

// voidAll: something happened to the server that leases need not survive. The empty
// key is all of them. The caller holds mu.
func (w *world) voidAll(key string) {
	w.brokenAt = time.Now()
	for _, t := range w.tenures {
		if (key == "" || t.key == key) && !t.void {
			t.void, t.voidAt = true, time.Now()
		}
	}
}

func (w *world) owns(owner string, p *process) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.owners[owner] = p
}

// confirmed: the client learns that it has the lock, and counts its TTL from sent. That
// rests on a request of the instant asked.
func (w *world) confirmed(key string, token uint64, sent, asked time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.tenures[tenureID{key, token}]
	t.sent, t.deadline = sent, sent.Add(t.process.plan.life())
	// A place in a queue is no better than a lease. And a Time from before a step of the
	// clients' clock shows the wall clock as it is now, for what moves it in a bubble
	// cannot know better; renewals are not concerned.
	if !w.brokenAt.Before(asked) || !w.movedAt.Before(asked) {
		t.void, t.voidAt = true, time.Now()
	}
}

// begins: the holder has its handle.
func (w *world) begins(p *process, held *lock.Held, waited bool) *tenure {
	done := held.Done()
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.tenures[tenureID{held.Key(), held.Token()}]
	switch {
	case t == nil:
		w.violated("token", "S3: p%d holds %s with token %d, which was never granted", p.id, held.Key(), held.Token())
		return nil
	case t.process != p || t.held != nil:
		w.violated("token", "S3: p%d holds %s with the token %d of another", p.id, held.Key(), held.Token())
		return nil
	}
	t.held, t.done = held, done
	if most := p.plan.maxHold; most > 0 {
		t.latest = t.sent.Add(most)
		if waited {
			t.latest = time.Now().Add(most)
		}
		t.deadline = earlier(t.deadline, t.latest)
	}
	w.note("p%d holds %s", p.id, t.key)
	return t
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// renewing checks what is sent. Nothing may be sent for a lease that was given back
// or lost, none twice at a time, none too soon or too late.
func (w *world) renewing(ctx context.Context, p *process, batch []lock.Lease) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	p.tally.Calls++
	p.tally.Leases += len(batch)
	if most := p.plan.renewal.MaxBatch; most > 0 && len(batch) > most {
		w.violated("sent", "a batch of %d, the most is %d", len(batch), most)
	}
	if at, most := p.tally.Calls-p.tally.Answered, p.plan.renewal.InFlight; most > 0 && at > most {
		w.violated("sent", "R3: %d renewals under way, the most is %d", at, most)
	}
	var latest time.Time
	for _, l := range batch {
		t := w.tenures[tenureID{l.Key, l.Token}]
		if t == nil || t.owner != l.Owner {
			w.violated("sent", "S4: p%d renews %s with token %d, which it never got", p.id, l.Key, l.Token)
			continue
		}
		w.sends(t, now)
		if t.deadline.After(latest) {
			latest = t.deadline
		}
	}
	if end, ok := ctx.Deadline(); w.moved == 0 && (!ok || end.After(latest)) {
		w.violated("sent", "S5: a renewal may outlive the deadlines of its batch, by %v", end.Sub(latest))
	}
}

// queueing is how long a renewal may wait for a slot where nothing fails: a call takes
// 10 ms, and few leases are held.
const queueing = 60 * time.Millisecond

func (w *world) sends(t *tenure, now time.Time) {
	w.check("sent")
	plan, id := t.process.plan, t.process.id
	since := now.Sub(t.sent)
	_, still := t.process.gate.StoodStill(t.sent)
	switch {
	case t.renewing:
		w.violated("sent", "p%d renews %s twice at a time", id, t.key)
	case !t.unlocked.IsZero() && t.unlocked.Before(now):
		w.violated("sent", "S6: p%d renews %s %v after Unlock began", id, t.key, now.Sub(t.unlocked))
	case t.told != nil && t.toldAt.Before(now):
		w.violated("sent", "S5: p%d renews %s %v after its loss was told", id, t.key, now.Sub(t.toldAt))
	case !now.Before(t.deadline):
		w.violated("sent", "S5: p%d renews %s %v after its deadline", id, t.key, now.Sub(t.deadline))
	case plan.fixed:
		w.violated("sent", "p%d renews %s, which is fixed", id, t.key)
	case w.plan.class == calm && !w.plan.queue && since > plan.period()+2*plan.tick+queueing:
		w.violated("sent", "p%d renews %s %v after the last time, its period is %v", id, t.key, since, plan.period())
	case !still && !w.plan.wallMoves() && t.failures > 0 && t.left > plan.period()+max(plan.ttl/100, plan.margin()) && since < plan.period()*3/4:
		w.violated("sent", "rule 2: p%d tries %s again after %v, its period is %v", id, t.key, since, plan.period())
	}
	t.renewing, t.sent, t.left = true, now, t.deadline.Sub(now)
}

// renewed takes down what the watchdog is about to hear, and has it checked that it
// acts on it at once.
func (w *world) renewed(p *process, batch []lock.Lease, out []renewal.Outcome, sent time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.tally.Answered++
	for i, l := range batch {
		t := w.tenures[tenureID{l.Key, l.Token}]
		if t == nil {
			continue
		}
		t.renewing = false
		gone := false
		switch out[i] {
		case renewal.Renewed:
			w.counts.Operations["renewed"]++
			t.failures = 0
			if !w.backAt.Before(sent) && !w.suspendedAt.Before(sent) { // A4, too
				t.void, t.voidAt = true, time.Now()
			}
			if time.Now().Before(t.deadline) {
				t.deadline = sent.Add(p.plan.life())
				if !t.latest.IsZero() {
					t.deadline = earlier(t.deadline, t.latest)
				}
			}
		case renewal.Lost:
			t.denied, gone = true, true
		default:
			t.failures++
			most := p.plan.failures()
			gone = most > 0 && t.failures >= most
		}
		if !p.closed {
			w.after(1, func() { w.acted(t, gone) })
		}
	}
}
