package whole

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/verify/chance"
)

// message is a command on its way.
type message struct {
	args  []string
	name  string   // of the script, or the command
	owner string   // of the acquisition, or of the first of a batch; may be empty
	pairs []string // "owner token" of what a batch renews
	nth   int      // of that name and owner
	again bool     // it was executed before, and that was answered
}

// read makes out what a command is about.
func (s *server) read(args []string) message {
	m := message{args: args, name: s.nameOf(args)}
	verb := strings.ToLower(args[0])
	if verb != "eval" && verb != "evalsha" {
		return m
	}
	keys, err := strconv.Atoi(args[2])
	if err != nil || len(args) < 3+keys {
		return m
	}
	rest := args[3+keys:]
	if m.renews() {
		m.pairs = rest[1:]
		m.owner, _, _ = strings.Cut(rest[1], " ")
	} else if len(rest) > 0 {
		m.owner = rest[0]
	}
	return m
}

// renews tells whether a message is a renewal.
func (m message) renews() bool { return strings.HasSuffix(m.name, "renew") }

// isFor tells whether a message asks for more time for a lease.
func (m *message) isFor(l lease) bool {
	if m.renews() {
		return slices.Contains(m.pairs, l.owner+" "+strconv.FormatUint(l.token, 10))
	}
	return strings.HasSuffix(m.name, "acquire") && m.owner == l.owner
}

// serial is the part of an owner that is the same in every run of a seed.
func serial(owner string) string { return owner[strings.LastIndexByte(owner, ':')+1:] }

// fate is what becomes of a message.
type fate struct {
	out, back time.Duration
	name      string // of the failure, if it is one

	lostRequest, lostReply, halfReply bool

	reset bool          // a loss is noticed when the answer would have come
	again time.Duration // it is executed once more, that much later
}

// staging decides what becomes of messages where a test tells a story.
type staging struct {
	fate   func(p *process, m message) fate
	signal func() (delay time.Duration)
}

// fateOf draws the fate of a message. The caller holds the world's mu.
func (k *link) fateOf(m message) fate {
	p, w := k.process, k.process.world
	if w.staging != nil {
		return w.staging.fate(p, m)
	}
	d := chance.New(w.plan.seed, 4, uint64(p.id), uint64(k.server.id), chance.Digest(m.name), chance.Digest(serial(m.owner)), uint64(m.nth))
	f := fate{out: latency(d), back: latency(d)}
	odds, ttl := w.plan.net, w.plan.ttl
	n := d.IntN(1000)
	hit := func(perMille int) bool { n -= perMille; return n < 0 }
	switch {
	case hit(odds.lostRequest):
		f.name, f.lostRequest, f.reset = "lost request", true, d.Chance(500)
	case hit(odds.lostReply):
		f.name, f.lostReply, f.reset = "lost reply", true, d.Chance(500)
	case hit(odds.halfReply):
		f.name, f.halfReply = "half a reply", true
	case hit(odds.late):
		f.out = d.UpTo(2 * ttl)
	case hit(odds.twice):
		f.again = d.UpTo(2 * ttl)
	case hit(odds.slow):
		f.out, f.back = d.UpTo(ttl/20), d.UpTo(ttl)
	}
	if f.name != "" && !w.mayFail(p) {
		return fate{out: f.out, back: f.back}
	}
	return f
}

func latency(d chance.Dice) time.Duration { return d.Between(50*time.Microsecond, 2*time.Millisecond) }

// mayFail tells whether something may fail for a process now: where a single failure
// at a time is the rule, one in a TTL may, and while a request waits for its answer. The caller holds mu.
func (w *world) mayFail(p *process) bool {
	if w.plan.class != single {
		return true
	}
	if time.Since(p.failedAt) < max(p.plan.ttl*11/10, timeout+time.Second) {
		return false
	}
	p.failedAt = time.Now()
	return true
}
