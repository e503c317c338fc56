package whole

import (
	"slices"
	"time"

	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/verify/chance"
)

// class is what a schedule is about. It is the seed modulo their number.
type class uint8

const (
	calm       class = iota // nothing fails: nothing may be lost
	single                  // one failure in a TTL: nothing may be lost
	external                // locks are deleted, or something else lies there
	network                 // messages are lost, late, doubled; partitions, connections that break
	pauses                  // processes stand still
	drift                   // the server's clock is as wrong as it may be, answers are slow
	trouble                 // the server refuses, forgets scripts, is restarted with its data
	dataLoss                // servers are restarted without data or with an older copy
	clocks                  // the server's clock is stepped
	endings                 // clients are closed and crash, contexts end
	everything              // all of that
	classes
)

var classNames = [classes]string{
	"calm", "single error", "external", "network", "pauses", "drift", "trouble", "data loss", "clocks", "endings", "everything",
}

// plan is what a seed decides before the schedule starts.
type plan struct {
	seed   uint64
	class  class
	ttl    time.Duration // the shortest
	length time.Duration // of the schedule
	keys   int           // of exclusive locks
	shared []string      // locks of other kinds
	rates  []float64     // of the servers' clocks; several are a quorum
	net    odds
	events []event // that happen, at random
	every  time.Duration
	procs  []processPlan
	more   bool // see moreFrom
}

// odds are the chances of what may happen to a message, in a thousand each.
type odds struct {
	lostRequest, lostReply, halfReply, late, twice, slow int

	refusedDial, hungDial int // of a connection that is made

	lostSignal, lateSignal int
}

type processPlan struct {
	users   int
	heap    bool // engine
	ttl     time.Duration
	tick    time.Duration
	renewal renewal.Options

	handovers int // locks are passed on within the client so many times in a row
}

var eventsOf = [classes][]event{
	external: {deleteKey, otherType},
	network:  {partition, oneWay, killed, killedEar},
	pauses:   {pause},
	drift:    {pause},
	trouble:  {loading, busy, readOnly, outOfMemory, scriptFlush, down, killed},
	dataLoss: {down, wipe, failOver},
	clocks:   {serverAhead, serverBack},
	endings:  {closeClient, crash, pause},
	everything: {
		partition, oneWay, killed, killedEar, pause, deleteKey, otherType, loading, busy, readOnly, outOfMemory,
		scriptFlush, down, wipe, failOver, serverAhead, closeClient,
	},
}

func newPlan(seed uint64) plan {
	d := chance.New(seed, 1)
	p := plan{
		seed:  seed,
		class: class(seed % uint64(classes)),
		ttl:   chance.Pick(d, 500*time.Millisecond, time.Second, 3*time.Second, 10*time.Second, 30*time.Second),
		keys:  1 + d.IntN(3),
		rates: []float64{1 + (d.Float64()-0.5)*0.02},
	}
	if d.Chance(600) {
		p.shared = []string{chance.Pick(d, rwName, permitName, groupName)}
		p.keys = chance.Pick(d, 0, 0, 1)
	}
	p.length = p.ttl * time.Duration(3+d.IntN(5))
	p.every = p.ttl / time.Duration(1+d.IntN(3))
	p.events = eventsOf[p.class]
	p.net = oddsOf(p.class, d)
	if p.class == drift {
		p.rates[0] = chance.Pick(d, 0.99, 1.01, 1.01)
	}
	if p.class != external && p.class != clocks && p.class != everything && d.Chance(250) {
		for range 2 {
			p.rates = append(p.rates, 1+(d.Float64()-0.5)*0.02)
		}
		p.length /= 2
	}
	for range chance.Pick(d, 2, 2, 3, 4) {
		p.procs = append(p.procs, newProcessPlan(d, p.class, p.ttl))
	}
	if seed >= moreFrom {
		p.addMore()
	}
	return p
}

func oddsOf(c class, d chance.Dice) odds {
	switch c {
	case single:
		return odds{lostRequest: 100, lostReply: 100, halfReply: 50, refusedDial: 100, hungDial: 50, lostSignal: 100}
	case external, trouble, dataLoss, clocks:
		return odds{lostRequest: 20, lostReply: 20, late: 20, lostSignal: 50}
	case drift:
		o := odds{lostRequest: 30, lostReply: 30, slow: 400, lostSignal: 50, lateSignal: 200}
		if d.Chance(500) { // or the renewals make good what was reckoned from a late answer
			o.lostRequest = 250
		}
		return o
	case network, everything:
		o := odds{
			lostRequest: 40, lostReply: 40, halfReply: 20, late: 50, twice: 50, slow: 50,
			refusedDial: 50, hungDial: 20, lostSignal: 100, lateSignal: 100,
		}
		if d.Chance(300) {
			o.lostRequest, o.late = 200, 200
		}
		return o
	case endings:
		return odds{lostRequest: 50, lostReply: 50, late: 50, slow: 20, lostSignal: 50}
	default:
		return odds{}
	}
}

func newProcessPlan(d chance.Dice, c class, ttl time.Duration) processPlan {
	p := processPlan{
		users: 1 + d.IntN(2),
		heap:  d.Chance(400),
		ttl:   ttl * time.Duration(chance.Pick(d, 1, 1, 2)),
		renewal: renewal.Options{
			Failures: chance.Pick(d, 0, 0, 0, 1, -1, 3),
			MaxBatch: chance.Pick(d, 0, 1, 2),
			InFlight: chance.Pick(d, 0, 1, 2),
		},
	}
	p.tick = min(max(p.ttl/3000, time.Millisecond), 10*time.Millisecond) // as the client's own engine has it
	if c == single {                                                     // L1 is for leases that tolerate a failure, and have a slot for the second try
		p.renewal.Failures, p.renewal.InFlight = chance.Pick(d, 0, -1, 3), 0
	}
	return p
}

// quorum tells whether there are several servers, of which a majority is one.
func (p plan) quorum() bool { return len(p.rates) > 1 }

// lossless tells whether no lease may be lost.
func (p plan) lossless() bool { return p.class == calm || p.class == single }

// forgets tells whether the server may lose data.
func (p plan) forgets() bool { return p.class == dataLoss || p.class == everything }

// margin and life are what docs/SAFETY.md says of deadlines.
func (p processPlan) margin() time.Duration {
	if p.heap {
		return 5 * time.Millisecond
	}
	return max(5*time.Millisecond, 2*p.tick+2*time.Millisecond)
}

func (p processPlan) life() time.Duration {
	return p.ttl - p.ttl/100 - max(p.ttl/100, p.margin())
}

func (p processPlan) failures() int {
	if p.renewal.Failures == 0 {
		return 2
	}
	return p.renewal.Failures
}

// place is how long a place in a queue lasts, by the doc comment of redisstore.
func place(ttl time.Duration) time.Duration {
	return min(max(ttl/3, 3*time.Second), 10*time.Second, ttl)
}

// Locks that are shared are called after their kind.
const (
	rwName     = "readers and writers"
	permitName = "permits"
	groupName  = "group"

	permits = 2 // at one time
)

// names are those of all locks.
func (p plan) names() []string {
	names := slices.Clone(p.shared)
	for n := range p.keys {
		names = append(names, keyName(n))
	}
	return names
}

func keyName(n int) string { return "key " + string(rune('a'+n)) }
