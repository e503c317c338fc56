// Simulated clients that acquire a shared lock from the reference.

package shared

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// clientMutation is a broken rule of the clients. The checker must find it.
type clientMutation int

const (
	none                  clientMutation = iota
	acceptStaleSignals                   // signals count regardless of maxToken
	anchorWhenSent                       // a poll sets lastPollSent without a reply
	deadlineFromSignal                   // the place counts from the arrival of the signal
	deadlineFromReply                    // the TTL counts from the arrival of the reply
	deadlineFromTTL                      // a handed-over lock gets a whole TTL
	noTombstones                         // a release leaves no tombstone
	tombstoneForFirstOnly                // a release leaves one only if the first request is unanswered
	renewalFromReply                     // a renewal counts from the arrival of its reply
	maxTokenFromFirst                    // only the first reply raises maxToken
	numClientMutations
)

// phase is the state of an acquisition.
type phase int

const (
	waiting phase = iota
	held
	ended
)

// acquisition is a client that acquires the lock the way package redisstore does.
type acquisition struct {
	request
	phase        phase
	lastPollSent int64
	maxToken     uint64
	token        uint64
	deadline     int64

	pending    *message   // the request whose reply the client waits for
	inFlight   []*message // requests that the server may still execute
	unanswered int        // acquire requests without a reply
	first      bool       // the first request is one of them
	tombstoned bool       // the server has a tombstone of the owner
}

// message is a request in flight.
type message struct {
	kind          byte // 'a' for acquire, 'r' for renew, 'x' for release
	sent          int64
	token         uint64 // of a renewal
	tombstone     int64  // of a release
	executed      bool
	reply         reply
	first         bool
	stepwise      bool // a renewal in two steps, of which the second checks the lease only
	firstStepDone bool // the first step has found no other token
}

// simulation has clients, messages in flight, and the reference as the server.
type simulation struct {
	rng            *rand.Rand
	clientMutation clientMutation
	reference      *reference
	mode           byte
	all            []*acquisition
	signals        []lease // owner and token
	serial         int
	tracing        bool // keep a trace
	trace          []string
	stats          stats
}

// stats counts the events of walks.
type stats struct {
	steps, granted, signalled, stale, late, renewed, lost, refused, served int
}

func newSimulation(seed uint64, b clientMutation) *simulation {
	return &simulation{
		rng:            rand.New(rand.NewPCG(seed, 1)), //nolint:gosec // a seed names a walk
		clientMutation: b,
		reference:      newReference(1_800_000_000_000),
		mode:           []byte{read, permit, members}[seed%3],
	}
}

func (w *simulation) tracef(format string, args ...any) {
	if !w.tracing {
		return
	}
	w.trace = append(w.trace, fmt.Sprintf("%d: ", w.reference.now%1e9)+fmt.Sprintf(format, args...))
}

// walk takes random steps, then stops all faults.
func (w *simulation) walk(steps int) error {
	for range steps {
		w.stats.steps++
		w.step()
		if err := w.check(); err != nil {
			return err
		}
	}
	return w.checkLiveness()
}

// check finds clients that rely on a lease that they do not hold.
func (w *simulation) check() error {
	for _, a := range w.all {
		if a.tombstoned && (w.reference.leases[a.owner] != nil || w.reference.placeOf(a.owner) != nil) {
			return fmt.Errorf("%s holds or waits after its release with a tombstone", a.owner)
		}
		if a.phase != held || a.deadline <= w.reference.now {
			continue
		}
		l := w.reference.leases[a.owner]
		if l == nil || l.token != a.token || l.end < a.deadline {
			return fmt.Errorf("%s relies on token %d until %d, but the server has %+v", a.owner, a.token, a.deadline, l)
		}
	}
	if what := w.reference.violation(); what != "" {
		return fmt.Errorf("reference: %s", what)
	}
	return nil
}

func (w *simulation) step() {
	if len(w.all) < 5 {
		w.start()
		return
	}
	a := w.all[w.rng.IntN(len(w.all))]
	switch n := w.rng.IntN(100); {
	case n < 25:
		w.execute(a)
	case n < 45:
		w.deliver(a)
	case n < 60:
		w.signal()
	case n < 72:
		w.poll(a)
	case n < 78:
		w.renew(a)
	case n < 84:
		w.end(a)
	default:
		w.advance([]int64{1, 5, 20, 50, 100}[w.rng.IntN(5)])
	}
	w.all = slices.DeleteFunc(w.all, func(a *acquisition) bool { return a.phase == ended && len(a.inFlight) == 0 })
}

// start starts an acquisition.
func (w *simulation) start() {
	w.serial++
	g := comparison{rng: w.rng, terms: w.rng, mode: w.mode, serial: w.serial}
	a := &acquisition{request: g.newClient().request, lastPollSent: w.reference.now}
	if a.family() != w.mode || a.mode == members && a.members == "" {
		return
	}
	a.ttl = []int64{100, 300}[w.rng.IntN(2)]
	a.place = a.ttl / int64(1+w.rng.IntN(3))
	w.tracef("%s starts: %+v", a.owner, a.request)
	w.all = append(w.all, a)
	w.poll(a)
}

// poll sends an acquire request. The client no longer waits for the reply to an earlier
// one.
func (w *simulation) poll(a *acquisition) {
	if a.phase != waiting {
		return
	}
	a.abandonPoll()
	m := &message{kind: 'a', sent: w.reference.now, first: a.inFlight == nil && a.maxToken == 0}
	a.pending, a.inFlight = m, append(a.inFlight, m)
	if w.clientMutation == anchorWhenSent {
		a.lastPollSent = w.reference.now
	}
	w.tracef("%s polls", a.owner)
}

// abandonPoll stops waiting for a reply.
func (a *acquisition) abandonPoll() {
	if a.pending != nil && a.pending.kind == 'a' {
		a.unanswered++
		a.first = a.first || a.pending.first
	}
	a.pending = nil
}

// execute executes a message on the server. The message may stay in flight and be
// executed again.
func (w *simulation) execute(a *acquisition) {
	if len(a.inFlight) == 0 {
		return
	}
	i := w.rng.IntN(len(a.inFlight))
	m := a.inFlight[i]
	if w.rng.IntN(4) > 0 {
		a.inFlight = slices.Delete(a.inFlight, i, i+1)
	}
	before := w.reference.storedToken
	var got reply
	switch m.kind {
	case 'a':
		got = w.reference.acquire(a.request)
	case 'r':
		l := w.reference.leaseOf(a.owner)
		if m.stepwise && !m.firstStepDone && !m.executed && (l == nil || l.token == m.token) {
			m.firstStepDone = true // records of an expired lease may be left
			a.inFlight = append(a.inFlight, m)
			return
		}
		token := m.token
		if m.firstStepDone && l != nil {
			token = l.token
		}
		if w.reference.renew(a.owner, token, a.ttl) {
			got.code = 1
		}
	default:
		w.reference.release(a.owner, m.tombstone, 0)
		a.tombstoned = a.unanswered > 0
	}
	for owner, l := range w.reference.leases {
		if l.token > before {
			w.signals = append(w.signals, lease{request: request{owner: owner}, token: l.token})
		}
	}
	if !m.executed {
		m.executed, m.reply = true, got
	}
	if got.code == -1 {
		w.stats.refused++
	}
	w.tracef("the server executes %c of %s: %+v", m.kind, a.owner, got)
}

// deliver delivers a reply.
func (w *simulation) deliver(a *acquisition) {
	m := a.pending
	if m == nil || !m.executed {
		return
	}
	a.pending = nil
	w.tracef("%s receives %+v", a.owner, m.reply)
	since := m.sent
	if m.kind == 'a' && w.clientMutation == deadlineFromReply || m.kind == 'r' && w.clientMutation == renewalFromReply {
		since = w.reference.now
	}
	switch {
	case m.kind == 'r':
		w.renewed(a, m, since)
	case a.phase != waiting: // a signal came first
	case m.reply.code == -1:
		a.phase = ended
	case m.reply.code == 1:
		w.stats.granted++
		a.phase, a.token, a.deadline = held, m.reply.token, since+a.ttl
	default:
		a.lastPollSent = m.sent
		if a.maxToken == 0 || w.clientMutation != maxTokenFromFirst {
			a.maxToken = max(a.maxToken, m.reply.token)
		}
	}
}

func (w *simulation) renewed(a *acquisition, m *message, since int64) {
	if a.phase != held {
		return
	}
	if m.reply.code == 0 {
		w.stats.lost++
		w.end(a)
		return
	}
	w.stats.renewed++
	if w.reference.now < a.deadline {
		a.deadline = max(a.deadline, since+a.ttl)
	}
}

// signal delivers a signal, which may stay in flight and be delivered again.
func (w *simulation) signal() {
	if len(w.signals) == 0 {
		return
	}
	i := w.rng.IntN(len(w.signals))
	s := w.signals[i]
	if w.rng.IntN(3) > 0 {
		w.signals = slices.Delete(w.signals, i, i+1)
	}
	for _, a := range w.all {
		if a.owner != s.owner || a.phase != waiting {
			continue
		}
		if s.token <= a.maxToken && w.clientMutation != acceptStaleSignals {
			w.stats.stale++
			continue
		}
		deadline := a.lastPollSent + a.place
		switch w.clientMutation {
		case deadlineFromSignal:
			deadline = w.reference.now + a.place
		case deadlineFromTTL:
			deadline = a.lastPollSent + a.ttl
		}
		if w.reference.now >= deadline {
			w.stats.late++
			continue
		}
		w.tracef("%s receives the signal %d", a.owner, s.token)
		w.stats.signalled++
		a.abandonPoll()
		a.phase, a.token, a.deadline = held, s.token, deadline
	}
}

func (w *simulation) renew(a *acquisition) {
	if a.phase != held || a.pending != nil {
		return
	}
	m := &message{kind: 'r', sent: w.reference.now, token: a.token, stepwise: w.rng.IntN(3) == 0}
	a.pending, a.inFlight = m, append(a.inFlight, m)
	w.tracef("%s renews", a.owner)
}

// end ends an acquisition: the client releases the lock, gives up, or crashes.
func (w *simulation) end(a *acquisition) {
	if a.phase == ended {
		return
	}
	a.abandonPoll()
	a.phase = ended
	if w.rng.IntN(5) == 0 {
		w.tracef("%s crashes", a.owner)
		return
	}
	m := &message{kind: 'x', sent: w.reference.now}
	if a.unanswered > 0 && w.clientMutation != noTombstones && (w.clientMutation != tombstoneForFirstOnly || a.first) {
		m.tombstone = 60_000
	}
	a.inFlight = append(a.inFlight, m)
	w.tracef("%s releases with %d unanswered requests", a.owner, a.unanswered)
}

func (w *simulation) advance(ms int64) {
	w.tracef("%d ms pass", ms)
	w.reference.now += ms
	for _, a := range w.all {
		if a.phase == held && a.deadline <= w.reference.now {
			w.end(a)
		}
	}
}
