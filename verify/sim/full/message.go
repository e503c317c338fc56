// Commands of clients, and their fates on the network.

package full

import (
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/internal/simrand"
	"github.com/leasewheel/leasewheel/verify/sim"
)

// message is a command that a client sends.
type message struct {
	args  []string
	name  string   // the name of the script, or the command
	owner string   // the owner, or the first owner of a batch; may be empty
	pairs []string // "owner token" of what a batch renews or releases
	nth   int      // the number of the message among those of that name and owner
	again bool     // a duplicate, whose answer is dropped
}

// read parses a command.
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
	switch {
	case m.renews():
		m.pairs = rest[1:]
		m.owner, _, _ = strings.Cut(rest[1], " ")
	case m.name == inBulk:
		m.pairs = rest
		m.owner, _, _ = strings.Cut(rest[0], " ")
	case len(rest) > 0:
		m.owner = rest[0]
	}
	return m
}

// inBulk is the script that releases many locks.
const inBulk = "release_all"

// renews reports whether a message is a renewal.
func (m message) renews() bool { return strings.HasSuffix(m.name, "renew") }

// isFor reports whether a message requests more time for a lease.
func (m *message) isFor(l lease) bool {
	if m.renews() {
		return slices.Contains(m.pairs, l.owner+" "+strconv.FormatUint(l.token, 10))
	}
	return strings.HasSuffix(m.name, "acquire") && m.owner == l.owner
}

// overrides decide the fates of messages in a schedule that a test describes.
type overrides struct {
	fate   func(p *process, m message) sim.Fate
	signal func() (delay time.Duration)
}

// fateOf draws the fate of a message. The caller holds World.Mu.
func (k *link) fateOf(m message) sim.Fate {
	p, b := k.process, k.process.backend
	if b.overrides != nil {
		return b.overrides.fate(p, m)
	}
	d := simrand.New(b.plan.Seed, 4, uint64(p.ID), uint64(k.server.id), simrand.Hash(m.name), simrand.Hash(b.Names.Of(m.owner)), uint64(m.nth))
	f := b.plan.net.Draw(d, b.plan.TTL, maxLatency)
	if f.Name != "" && !b.mayFail(p) {
		return sim.Fate{Out: f.Out, Back: f.Back}
	}
	if p.isSlow() {
		f.Back = p.Plan.RTT - f.Out
	}
	return f
}

const maxLatency = 2 * time.Millisecond

func latency(d simrand.Rand) time.Duration { return d.Between(50*time.Microsecond, maxLatency) }

// mayFail reports whether a fault of a process is allowed now. A schedule of single failures
// allows one in a TTL, and one in the time that a request waits for its answer. The caller
// holds World.Mu.
func (b *backend) mayFail(p *process) bool {
	if b.plan.class != single {
		return true
	}
	if time.Since(p.failedAt) < max(p.Plan.TTL*11/10, timeout+time.Second) {
		return false
	}
	p.failedAt = time.Now()
	return true
}

// checkSent checks a renewal that a client sends. The caller holds World.Mu.
func (b *backend) checkSent(p *process, m message) {
	if !m.renews() {
		return
	}
	for _, pair := range m.pairs {
		owner, token, _ := cutToken(pair)
		b.CheckSent(p.Process, b.grantOf(owner, token), strings.ToLower(m.args[0]))
	}
}

// cutToken splits the value of a lease, as scripts get it, into the owner and the token.
func cutToken(pair string) (owner string, token uint64, ok bool) {
	owner, text, _ := strings.Cut(pair, " ")
	token, err := strconv.ParseUint(text, 10, 64)
	return owner, token, err == nil
}

// grantOf returns the grant of an owner and a token, or nil if there was none.
func (b *backend) grantOf(owner string, token uint64) *sim.Grant {
	for _, key := range b.plan.Names() {
		if g := b.Grants[b.idOf(key, owner, token)]; g != nil {
			return g
		}
	}
	return nil
}
