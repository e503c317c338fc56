// The grants of the servers, with the knowledge of their holders.

package sim

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// Modes of grants.
const (
	Exclusive = "x"
	Reading   = "r"
	Writing   = "w"
	Permit    = "p"
	Members   = "m"
)

// GrantID identifies a grant. The token of a grant by a quorum is 0.
type GrantID struct {
	Key   string
	Owner string
	Token uint64
}

// Grant is one grant by the servers, and what its holder knows about it. World.Mu guards the
// fields.
type Grant struct {
	GrantID
	Process *Process
	Mode    string
	Members []string // of mode Members

	user *User // the user whose call returned it; nil before that
	held atomic.Pointer[lock.Held]
	done <-chan struct{} // Held.Done

	Attempt     string    // the attempt of a quorum by which the client got it
	ConfirmedAt time.Time // when its client learned of it
	whole       time.Time // when its Multi had all of its locks; zero outside a Multi
	Deadline    time.Time // by the formula, from the last answer that confirmed it
	latest      time.Time // the maximum of the deadline; zero: there is none
	sent        time.Time // the latest renewal
	short       bool      // handed over with less time left than fewAnswers take

	// Void means that a key was deleted, data was lost or a clock was stepped, and that no
	// renewal was executed since. The lease need not survive that.
	Void   bool
	voidAt time.Time

	failures   int           // renewals in a row without an answer
	left       time.Duration // the time from the latest renewal to the deadline at that time
	denied     bool          // the store has answered that the lease is lost
	renewing   int           // running calls of Renew by the watchdog: two during a downgrade
	early      int           // of these, early ones
	beside     bool          // an early one began last, or was running then
	refreshing bool          // in a call of Renew by a Multi
	batch      int           // the size of the latest batch, which may be sent until its last deadline
	commands   []string      // commands that the latest call sent

	// downgrading means that a reader's entry replaces a writer's, while a renewal of either may
	// be running. unsure means that such a renewal was running, and may count for either entry
	// until a renewal is answered that was sent after doubt.
	downgrading, unsure bool
	doubt, begun        time.Time // begun is when the grant replaced former
	former              *Grant    // the grant of the writer

	at         time.Time // when the servers granted it
	validAtEnd bool      // the handle was valid when Unlock or Close was called
	keptUntil  time.Time // MinHold keeps the released lock taken until then; zero: it does not

	unlocked time.Time // when Unlock was called
	gone     bool      // Unlock has returned
	loss     *renewal.LostError
	lossAt   time.Time
}

// Handle returns the handle of the lock, or nil before its holder has one.
func (g *Grant) Handle() *lock.Held { return g.held.Load() }

// Ended reports whether the handle has reported a loss, or Unlock was called.
func (g *Grant) Ended() bool { return closed(g.done) }

// Unlocked returns when Unlock was called. It reports false if Unlock has not returned.
func (g *Grant) Unlocked() (at time.Time, ok bool) { return g.unlocked, g.gone }

func closed(done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	default:
		return false
	}
}

// sleepUntil sleeps until an instant. It returns false if done is closed before.
func sleepUntil(at time.Time, done <-chan struct{}) bool {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-done:
		return false
	}
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// Later returns the later of two instants.
func Later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Granted records that the servers granted a lock to an owner. It checks that no conflicting
// holder believes to have the lock. The caller holds Mu.
func (w *World) Granted(g *Grant) {
	w.Note("granted %s %s %v to p%d %s", g.Key, g.Mode, g.Members, g.Process.ID, w.Names.Of(g.Owner))
	w.exclude(g)
	g.at = time.Now()
	for _, former := range w.Grants {
		w.checkKept(former, g)
	}
	w.Grants[g.GrantID] = g
}

// NumPermits is the maximum number of holders of a semaphore at one time.
const NumPermits = 2

// exclude checks the other holders of a lock at the moment when an owner gets it.
func (w *World) exclude(by *Grant) {
	room := 0 // for other holders
	if by.Mode == Permit {
		room = NumPermits - 1
	}
	believe, untold := 0, 0
	var example *Grant
	for _, g := range w.Grants {
		if !g.excludes(by) {
			continue
		}
		w.Check("exclusion")
		if g.Handle().Valid() {
			believe++
			example = g
		}
		if _, paused := g.Process.Pauser.PausedSince(g.Deadline); !paused && w.clocks.moved == 0 {
			untold++
		}
	}
	switch {
	case believe > room:
		w.Violated("exclusion", "S1: %s is granted to p%d while the handle of p%d is valid; its deadline is %v away",
			by.Key, by.Process.ID, example.Process.ID, time.Until(example.Handle().Deadline()))
	case untold > room:
		w.Violated("exclusion", "S2: %s is granted to p%d before the handle of the former holder ended", by.Key, by.Process.ID)
	}
}

// excludes reports whether a possible holder conflicts with a new one.
func (g *Grant) excludes(by *Grant) bool {
	switch {
	case g.Key != by.Key || g.Handle() == nil || g.Void || g.Ended():
		return false
	case g.Mode == Reading && by.Mode == Reading:
		return false
	case g.Mode == Members && by.Mode == Members:
		return overlap(g.Members, by.Members)
	}
	return true
}

func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(m string) bool { return slices.Contains(b, m) })
}

// Downgraded records that a server has turned a writer into a reader. Others may read from
// now on, so the holder must not believe that it may write. The caller holds Mu.
func (w *World) Downgraded(g *Grant) {
	w.Check("downgraded on the server")
	w.Note("%s of p%d becomes a reader's", g.Key, g.Process.ID)
	if h := g.Handle(); h != nil && h.Valid() {
		w.Violated("exclusion", "S1: others may read %s while the writer's handle of p%d is valid", g.Key, g.Process.ID)
	}
	g.Mode = Reading
}

// VoidAll records an event of a lock that its leases need not survive. The empty key means
// all locks. The caller holds Mu.
func (w *World) VoidAll(key string) {
	w.broken = time.Now()
	for _, g := range w.Grants {
		if (key == "" || g.Key == key) && !g.Void {
			g.void()
		}
	}
}

func (g *Grant) void() { g.Void, g.voidAt = true, time.Now() }

// Asked records the instant of the request from which the place of a waiting owner counts. The
// caller does not hold Mu.
func (w *World) Asked(owner string, at time.Time) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.asked[owner] = at
}

// fewAnswers is the number of answers that must fit into the rest of a handed-over lock so that
// its lease survives: its renewal may need a new connection and a second attempt.
const fewAnswers = 6

// confirmed records that a client learns of a grant, whose TTL counts from sent.
func (w *World) confirmed(ctx context.Context, l driver.Lease, sent time.Time) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	g := w.Grants[GrantID{l.Key, l.Owner, l.Token}]
	if g == nil {
		w.Violated("token", "S3: %s with token %d was never granted", l.Key, l.Token)
		return
	}
	if u, ok := ctx.Value(byUser{}).(*User); ok {
		g.user = u
	}
	g.ConfirmedAt = time.Now()
	w.Backend.Confirmed(g)
	g.sent, g.Deadline = sent, Later(g.Deadline, sent.Add(g.Process.Plan.Validity())) // a renewal may have been sent since
	if !g.latest.IsZero() {
		g.Deadline = earlier(g.Deadline, g.latest)
	}
	if rtt := g.Process.Plan.RTT; rtt > 0 {
		g.short = time.Until(g.Deadline) < fewAnswers*rtt
	}
	asked, waited := w.asked[l.Owner]
	if !waited {
		asked = sent
	}
	// A place in a queue lasts no longer than a lease. A Time from before a step of the clients'
	// clocks shows the current wall clock, because the seam that steps the clock in a bubble
	// cannot change stored instants. Renewals are not affected.
	if !w.broken.Before(asked) || !w.clocks.movedAt.Before(asked) {
		g.void()
	}
}

// begin records that a user has its handle.
func (w *World) begin(u *User, held *lock.Held, waited bool) *Grant {
	p, done := u.Process, held.Done()
	w.Mu.Lock()
	defer w.Mu.Unlock()
	g := w.newest(u, held)
	switch {
	case g == nil:
		w.Violated("token", "S3: p%d holds %s with token %d, which was never granted", p.ID, held.Key(), held.Token())
		return nil
	case g.Process != p || g.Handle() != nil:
		w.Violated("token", "S3: p%d holds %s with token %d, which belongs to another process", p.ID, held.Key(), held.Token())
		return nil
	}
	g.done = done
	if most := p.Plan.MaxHold; most > 0 {
		g.latest = g.sent.Add(most)
		if waited {
			g.latest = time.Now().Add(most)
		}
	}
	if p.Plan.Fixed && (g.latest.IsZero() || g.Deadline.Before(g.latest)) {
		g.latest = g.Deadline
	}
	if !g.latest.IsZero() {
		g.Deadline = earlier(g.Deadline, g.latest)
	}
	g.held.Store(held)
	w.Note("p%d holds %s", p.ID, g.Key)
	return g
}

// newest returns the grant of a handle. A grant of a quorum has no token, so it is the latest
// one that a call of the same user returned. The caller holds Mu.
func (w *World) newest(u *User, held *lock.Held) *Grant {
	var found *Grant
	for _, g := range w.Grants {
		switch {
		case g.Key != held.Key() || g.Token != held.Token():
		case w.Plan.Quorum && (g.user != u || g.Handle() != nil || g.ConfirmedAt.IsZero()):
		case found == nil || g.ConfirmedAt.After(found.ConfirmedAt):
			found = g
		}
	}
	return found
}

// Holds reports whether an owner has a handle that was not unlocked. The caller holds Mu.
func (w *World) Holds(owner string) bool {
	for _, g := range w.Grants {
		if g.Owner == owner && g.Handle() != nil && !g.gone {
			return true
		}
	}
	return false
}

// has reports whether the servers still have a lock for its holder. The caller holds Mu.
func (w *World) has(g *Grant) bool { return w.Backend.Lasts(g) > 0 }
