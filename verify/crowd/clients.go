package crowd

import (
	"fmt"
	"math/rand/v2"
	"slices"
)

// bug is a rule of the clients that is broken, to see that it is found.
type bug int

const (
	none               bug = iota
	staleSignals           // signals are believed whatever the mark
	anchorUnanswered       // a poll moves the anchor when it is sent
	deadlineFromSignal     // what was handed over is counted from the signal
	deadlineFromAnswer     // what was granted is counted from the answer
	placeAsTTL             // what was handed over is counted as a whole TTL
	noTombstones           // a release does not say that a request is unanswered
	tombstonesForFirst     // or only of the first
	lateRenewals           // what a renewal answers counts from the answer
	markOfFirst            // answers to polls do not raise the mark
	bugs
)

// phase is where an acquisition stands.
type phase int

const (
	waiting phase = iota
	held
	ended
)

// acquisition is a client that waits for the lock, as package redisstore does.
type acquisition struct {
	ask
	phase    phase
	anchor   int64
	mark     uint64
	token    uint64
	deadline int64

	asked   *message   // the request that it waits for
	sent    []*message // all that may yet be executed
	lost    int        // requests for the lock that got no answer
	first   bool       // the first of all is among those
	refused bool       // the server was told that it must get nothing any more
}

// message is a request on its way.
type message struct {
	kind     byte // 'a'cquire, 'r'enew or 'x', a release
	sent     int64
	token    uint64 // of a renewal
	tomb     int64  // of a release
	executed bool
	answer   answer
	first    bool
}

// world is clients, messages, and the rules of the server.
type world struct {
	rng     *rand.Rand
	bug     bug
	rules   *rules
	mode    byte
	all     []*acquisition
	signals []tenure // owner and token
	serial  int
	loud    bool // keep a log
	log     []string
	stats   stats
}

// stats are what a walk was about.
type stats struct {
	steps, granted, signalled, stale, late, renewed, lost, refused, drained int
}

func newWorld(seed uint64, b bug) *world {
	return &world{
		rng:   rand.New(rand.NewPCG(seed, 1)), //nolint:gosec // a seed names a walk
		bug:   b,
		rules: newRules(1_800_000_000_000),
		mode:  []byte{read, permit, members}[seed%3],
	}
}

func (w *world) note(format string, args ...any) {
	if !w.loud {
		return
	}
	w.log = append(w.log, fmt.Sprintf("%d: ", w.rules.now%1e9)+fmt.Sprintf(format, args...))
}

// walk takes random steps, then lets all faults end.
func (w *world) walk(steps int) error {
	for range steps {
		w.stats.steps++
		w.step()
		if err := w.check(); err != nil {
			return err
		}
	}
	return w.drain()
}

// check finds clients that trust in what the server does not hold for them.
func (w *world) check() error {
	for _, a := range w.all {
		if a.refused && (w.rules.leases[a.owner] != nil || w.rules.placeOf(a.owner) != nil) {
			return fmt.Errorf("%s comes back", a.owner)
		}
		if a.phase != held || a.deadline <= w.rules.now {
			continue
		}
		l := w.rules.leases[a.owner]
		if l == nil || l.token != a.token || l.end < a.deadline {
			return fmt.Errorf("%s trusts in %d until %d, and the server has %+v", a.owner, a.token, a.deadline, l)
		}
	}
	if what := w.rules.broken(); what != "" {
		return fmt.Errorf("the rules are wrong: %s", what)
	}
	return nil
}

func (w *world) step() {
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
		w.pass([]int64{1, 5, 20, 50, 100}[w.rng.IntN(5)])
	}
	w.all = slices.DeleteFunc(w.all, func(a *acquisition) bool { return a.phase == ended && len(a.sent) == 0 })
}

// start begins an acquisition.
func (w *world) start() {
	w.serial++
	g := game{rng: w.rng, mode: w.mode, serial: w.serial}
	a := &acquisition{ask: g.newClient().ask, anchor: w.rules.now}
	if a.family() != w.mode || a.mode == members && a.members == "" {
		return
	}
	a.ttl = []int64{100, 300}[w.rng.IntN(2)]
	a.place = a.ttl / int64(1+w.rng.IntN(3))
	w.note("%s starts: %+v", a.owner, a.ask)
	w.all = append(w.all, a)
	w.poll(a)
}

// poll sends a request for the lock. One that is still unanswered is given up.
func (w *world) poll(a *acquisition) {
	if a.phase != waiting {
		return
	}
	a.giveUp()
	m := &message{kind: 'a', sent: w.rules.now, first: a.sent == nil && a.mark == 0}
	a.asked, a.sent = m, append(a.sent, m)
	if w.bug == anchorUnanswered {
		a.anchor = w.rules.now
	}
	w.note("%s asks", a.owner)
}

// giveUp stops waiting for an answer.
func (a *acquisition) giveUp() {
	if a.asked != nil && a.asked.kind == 'a' {
		a.lost++
		a.first = a.first || a.asked.first
	}
	a.asked = nil
}

// execute lets the server execute a message; it may come again.
func (w *world) execute(a *acquisition) {
	if len(a.sent) == 0 {
		return
	}
	i := w.rng.IntN(len(a.sent))
	m := a.sent[i]
	if w.rng.IntN(4) > 0 {
		a.sent = slices.Delete(a.sent, i, i+1)
	}
	before := w.rules.stored
	var got answer
	switch m.kind {
	case 'a':
		got = w.rules.acquire(a.ask)
	case 'r':
		if w.rules.renew(a.owner, m.token, a.ttl) {
			got.code = 1
		}
	default:
		w.rules.release(a.owner, m.tomb)
		a.refused = a.lost > 0
	}
	for owner, l := range w.rules.leases {
		if l.token > before {
			w.signals = append(w.signals, tenure{ask: ask{owner: owner}, token: l.token})
		}
	}
	if !m.executed {
		m.executed, m.answer = true, got
	}
	if got.code == -1 {
		w.stats.refused++
	}
	w.note("the server executes %c of %s: %+v", m.kind, a.owner, got)
}

// deliver brings an answer.
func (w *world) deliver(a *acquisition) {
	m := a.asked
	if m == nil || !m.executed {
		return
	}
	a.asked = nil
	w.note("%s hears %+v", a.owner, m.answer)
	since := m.sent
	if m.kind == 'a' && w.bug == deadlineFromAnswer || m.kind == 'r' && w.bug == lateRenewals {
		since = w.rules.now
	}
	switch {
	case m.kind == 'r':
		w.renewed(a, m, since)
	case a.phase != waiting: // by a signal
	case m.answer.code == -1:
		a.phase = ended
	case m.answer.code == 1:
		w.stats.granted++
		a.phase, a.token, a.deadline = held, m.answer.token, since+a.ttl
	default:
		a.anchor = m.sent
		if a.mark == 0 || w.bug != markOfFirst {
			a.mark = max(a.mark, m.answer.token)
		}
	}
}

func (w *world) renewed(a *acquisition, m *message, since int64) {
	if a.phase != held {
		return
	}
	if m.answer.code == 0 {
		w.stats.lost++
		w.end(a)
		return
	}
	w.stats.renewed++
	if w.rules.now < a.deadline {
		a.deadline = max(a.deadline, since+a.ttl)
	}
}

// signal brings one of all signals, perhaps not for the last time.
func (w *world) signal() {
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
		if s.token <= a.mark && w.bug != staleSignals {
			w.stats.stale++
			continue
		}
		deadline := a.anchor + a.place
		switch w.bug {
		case deadlineFromSignal:
			deadline = w.rules.now + a.place
		case placeAsTTL:
			deadline = a.anchor + a.ttl
		}
		if w.rules.now >= deadline {
			w.stats.late++
			continue
		}
		w.note("%s is signalled %d", a.owner, s.token)
		w.stats.signalled++
		a.giveUp()
		a.phase, a.token, a.deadline = held, s.token, deadline
	}
}

func (w *world) renew(a *acquisition) {
	if a.phase != held || a.asked != nil {
		return
	}
	m := &message{kind: 'r', sent: w.rules.now, token: a.token}
	a.asked, a.sent = m, append(a.sent, m)
	w.note("%s renews", a.owner)
}

// end releases the lock, gives the waiting up, or dies.
func (w *world) end(a *acquisition) {
	if a.phase == ended {
		return
	}
	a.giveUp()
	a.phase = ended
	if w.rng.IntN(5) == 0 {
		w.note("%s dies", a.owner)
		return
	}
	m := &message{kind: 'x', sent: w.rules.now}
	if a.lost > 0 && w.bug != noTombstones && (w.bug != tombstonesForFirst || a.first) {
		m.tomb = 60_000
	}
	a.sent = append(a.sent, m)
	w.note("%s releases, with %d unanswered", a.owner, a.lost)
}

func (w *world) pass(ms int64) {
	w.note("%d ms pass", ms)
	w.rules.now += ms
	for _, a := range w.all {
		if a.phase == held && a.deadline <= w.rules.now {
			w.end(a)
		}
	}
}
