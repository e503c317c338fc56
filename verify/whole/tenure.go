package whole

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

// tenure is one grant by the server, and what its client made of it. The world's mu
// guards its fields.
type tenure struct {
	tenureID
	process *process
	user    *user // whose call was answered with it, nil as long as there is none
	mode    string
	members []string

	held atomic.Pointer[lock.Held] // nil until its holder has it, or for ever
	done <-chan struct{}

	confirmedAt time.Time
	try         string    // by which a quorum has it
	deadline    time.Time // by the formula, from the last answer that confirmed it
	sent        time.Time // the latest renewal

	// void: what the promise of exclusion assumes was broken for this lease, by a
	// deleted key, lost data or a stepped clock of the server, and no renewal was
	// executed since.
	void   bool
	voidAt time.Time

	failures   int  // renewals in a row without an answer
	denied     bool // the store said that it is lost
	deniedAt   time.Time
	renewing   int      // calls of Renew by the watchdog that it is in: two while it is turning, or passed on
	refreshing bool     // in one by a Multi
	among      int      // so many in that call, which may last until the last of their deadlines
	sends      []string // by that call: a script by its digest, or in full

	// turning: a reader's entry takes the place of a writer's, while a renewal of
	// either may be under way. unsure: one was when it had, or when the lock was passed on
	// within its client, and counts for nobody knows whom, until one is answered that was
	// sent after doubt.
	turning, unsure bool
	doubt, begun    time.Time // begun: when it took the place of former
	former          *tenure   // of the same lease
	row             int       // so many times in a row it was passed on within its client, at least
	passed          bool      // to the next in its client
	unlocked        time.Time
	gone            bool // Unlock has returned
	told            *renewal.LostError
	toldAt          time.Time
}

// handle returns the handle by which the lock is held.
func (t *tenure) handle() *lock.Held { return t.held.Load() }

// tenureID names a grant. Of a quorum, which has no tokens, the token is 0.
type tenureID struct {
	key   string
	owner string
	token uint64
}

// granted: the server gave a lock to an owner. The caller holds mu.
func (w *world) granted(key string, to lease) {
	p := w.owner(to.owner)
	if p == nil {
		w.note("%s is somebody else's", key)
		return
	}
	if w.plan.quorum() && !w.elects(key, to) {
		return
	}
	kind := "grant"
	if w.plan.quorum() {
		kind = "majority"
	}
	w.counts.Operations[kind]++
	w.note("granted %s %s %v to p%d %s by %d", key, to.mode, to.members, p.id, serial(to.owner), to.token)
	id := w.idOf(key, to.owner, to.token)
	if w.tenures[id] != nil {
		return // a copy of the data has it again, or another server has granted it too
	}
	t := &tenure{tenureID: id, process: p, mode: to.mode, members: to.members}
	w.excludes(t)
	w.tenures[id] = t
}

func closed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// kept: the server gave a lease more time. All of its TTL makes good what befell it.
// The caller holds mu.
func (w *world) kept(key string, l lease) {
	t := w.tenures[w.idOf(key, l.owner, l.token)]
	if t != nil && l.left >= t.process.plan.ttl {
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

// confirmed: the client learns that it has the lock, and counts its TTL from sent.
func (w *world) confirmed(ctx context.Context, l lock.Lease, sent time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.tenures[tenureID{l.Key, l.Owner, l.Token}]
	if t == nil {
		w.violated("token", "S3: %s by token %d was never granted", l.Key, l.Token)
		return
	}
	if u, ok := ctx.Value(byUser{}).(*user); ok {
		t.user = u
	}
	t.confirmedAt, t.try = time.Now(), w.newestTry(t)
	t.sent, t.deadline = sent, later(t.deadline, sent.Add(t.process.plan.life())) // a renewal may have been sent since
	if !w.brokenAt.Before(sent) {                                                 // a place in a queue is no better than a lease
		t.void, t.voidAt = true, time.Now()
	}
}

// begins: the holder has its handle.
func (w *world) begins(u *user, held *lock.Held) *tenure {
	p, done := u.process, held.Done()
	w.mu.Lock()
	defer w.mu.Unlock()
	t := w.newest(u, held)
	switch {
	case t == nil:
		w.violated("token", "S3: p%d holds %s with token %d, which was never granted", p.id, held.Key(), held.Token())
		return nil
	case t.process == p && t.handle() != nil && p.plan.handovers > 0:
		t = w.passes(t)
	case t.process == p && t.renewing > 0 && p.plan.handovers > 0:
		t = w.succeeds(t, t.row) // a Multi may have had it, and passed it on when it failed
	case t.process != p || t.handle() != nil:
		w.violated("token", "S3: p%d holds %s with the token %d of another", p.id, held.Key(), held.Token())
		return nil
	}
	t.done = done
	t.held.Store(held)
	w.note("p%d holds %s", p.id, t.key)
	return t
}

// returning tells whether locks may be on their way back that the cleaner does not count.
// The caller holds the world's mu.
func (p *process) returning() bool {
	since := p.returnedAt
	if end, still := p.gate.StoodStill(since); still {
		since = end
	}
	return !p.returnedAt.IsZero() && time.Since(since) <= min(timeout, p.plan.ttl)
}

// turn is within what time after a pause all that was held up goes on.
const turn = 200 * time.Microsecond

// renewing takes down a call of the watchdog, and checks what is asked of the store. It
// returns whom the answer is for, nil for those who never got the lock.
func (w *world) renewing(ctx context.Context, p *process, batch []lock.Lease, sent time.Time) (tenures []*tenure) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.check("renewal")
	for _, l := range batch {
		tenures = append(tenures, w.tenures[tenureID{l.Key, l.Owner, l.Token}])
	}
	now := time.Now()
	if refreshes(ctx) {
		if t := tenures[0]; t != nil {
			t.refreshing = true
		}
		return tenures
	}
	p.tally.Calls++
	p.tally.Leases += len(batch)
	if most := p.plan.renewal.MaxBatch; most > 0 && len(batch) > most {
		w.violated("renewal", "a batch of %d, the most is %d", len(batch), most)
	}
	var latest time.Time
	for i, t := range tenures {
		_, still := p.gate.StoodStill(now.Add(-turn))
		switch {
		case t == nil:
			w.violated("renewal", "S4: p%d renews %s with token %d, which it never got", p.id, batch[i].Key, batch[i].Token)
			continue
		case t.turning:
		case t.renewing > 0 && t.told == nil && (t.gone || t.handle() == nil) && p.passing(), // it was passed on meanwhile
			!sent.After(t.begun): // or since the process stood still
			t.unsure, t.doubt = true, sent
		case t.renewing > 0:
			w.violated("renewal", "p%d renews %s twice at a time", p.id, t.key)
		case t.gone && t.unlocked.Before(now) && !still && !p.passing():
			w.violated("renewal", "S6: p%d renews %s %v after Unlock began", p.id, t.key, now.Sub(t.unlocked))
		case t.told != nil && t.toldAt.Before(now) && !still:
			w.violated("renewal", "S5: p%d renews %s %v after its loss was told", p.id, t.key, now.Sub(t.toldAt))
		}
		t.renewing++
		t.sent, t.among, t.sends = now, len(batch), nil
		latest = later(latest, t.deadline)
	}
	if end, ok := ctx.Deadline(); !ok || end.After(latest) {
		w.violated("renewal", "S5: a renewal may outlive the deadlines of its batch, by %v", end.Sub(latest))
	}
	return tenures
}

// renewed takes down what the watchdog is about to hear, and has it checked that it
// acts on it at once.
func (w *world) renewed(ctx context.Context, p *process, tenures []*tenure, out []renewal.Outcome, sent time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	refresh := refreshes(ctx)
	if !refresh {
		p.tally.Answered++
	}
	for i, t := range tenures {
		if t == nil {
			continue
		}
		w.note("p%d has renewed %s %s: %v", p.id, t.key, serial(t.owner), out[i])
		next := w.tenures[t.tenureID]
		meant := next != nil && next.former == t && next.unsure // it may be its renewal already
		gone := false
		switch {
		case out[i] == renewal.Renewed:
			w.counts.Operations["renewed"]++
			t.failures = 0
			if !refresh && sent.After(t.doubt) {
				t.unsure = false
			}
			if time.Now().Before(t.deadline) {
				t.deadline = later(t.deadline, sent.Add(p.plan.life()))
			}
			if meant {
				next.deadline = later(next.deadline, t.deadline)
			}
		case out[i] == renewal.Lost:
			t.denied, t.deniedAt, gone = true, time.Now(), !refresh
			if meant {
				next.denied, next.deniedAt = true, t.deniedAt
			}
		case !refresh:
			w.counts.Operations["renewal without an answer"]++
			t.failures++
			most := p.plan.failures()
			gone = most > 0 && t.failures >= most
		}
		if refresh {
			t.refreshing = false
			continue
		}
		t.renewing--
		if !p.closed && !t.turning && !t.unsure {
			w.after(1, func() { w.acted(t, gone) })
		}
	}
}

type byUser struct{}

// by marks the calls of a user.
func by(ctx context.Context, u *user) context.Context { return context.WithValue(ctx, byUser{}, u) }

// refreshes tells whether a renewal is that of a Multi, which gives its members their
// whole TTL before it returns: it has the context of its user.
func refreshes(ctx context.Context) bool { return ctx.Value(byUser{}) != nil }

// wireCheck looks at what a client sends: a renewal only on behalf of a call that is
// under way, so for nobody who has unlocked, and nobody who was told of a loss. The
// caller holds mu.
func (w *world) wireCheck(p *process, m message) {
	if !m.renews() {
		return
	}
	w.check("sent")
	for _, pair := range m.pairs {
		owner, text := cutLast(pair)
		token, err := strconv.ParseUint(text, 10, 64)
		t := w.tenureOf(owner, token)
		_, still := p.gate.StoodStill(time.Now().Add(-turn))
		switch {
		case err != nil || t == nil || t.process != p:
			w.violated("sent", "S4: p%d renews what it never got", p.id)
		case t.refreshing, t.turning, t.unsure, w.plan.quorum(): // which does not wait for all answers
		case !t.underWay() && !still:
			w.violated("sent", "S5, S6: p%d sends a renewal of %s after the call had returned", p.id, t.key)
		case !time.Now().Before(t.deadline) && !still && t.among == 1:
			w.violated("sent", "S5: p%d sends a renewal of %s %v after its deadline", p.id, t.key, time.Since(t.deadline))
		case t.repeats(m) && !still:
			w.violated("sent", "rule 2: p%d sends a renewal of %s again in the same call", p.id, t.key)
		}
	}
}

// repeats notes that a renewal is sent, and tells whether the call has sent the same
// before. What a server does not know by its digest is sent once more, in full.
func (t *tenure) repeats(m message) bool {
	verb := strings.ToLower(m.args[0])
	before := slices.Contains(t.sends, verb)
	t.sends = append(t.sends, verb)
	return before
}

// underWay tells whether a call of Renew has the lease, be it for one who has passed it
// on since.
func (t *tenure) underWay() bool {
	for ; t != nil; t = t.former {
		if t.renewing > 0 {
			return true
		}
	}
	return false
}

func (w *world) tenureOf(owner string, token uint64) *tenure {
	for _, key := range w.plan.names() {
		if t := w.tenures[w.idOf(key, owner, token)]; t != nil {
			return t
		}
	}
	return nil
}
