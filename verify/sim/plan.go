package sim

import (
	"time"

	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/verify/chance"
)

// class is what a schedule is about. It is the seed modulo their number.
type class uint8

const (
	calm       class = iota // nothing fails: nothing may be lost
	single                  // never two failures in a row: nothing may be lost
	external                // locks are deleted, taken over, forced away
	network                 // messages are lost, late, doubled; partitions
	pauses                  // processes stand still
	drift                   // the server's clock is as wrong as it may be, answers are slow
	dataLoss                // servers go down, and lose data or fall back to an older copy
	clocks                  // clocks are stepped, the host of the clients is suspended
	endings                 // clients are closed and crash, contexts end
	everything              // all of that
	classes
)

var classNames = [classes]string{
	"calm", "single error", "external", "network", "pauses", "drift", "data loss", "clocks", "endings", "everything",
}

// plan is what a seed decides before the schedule starts.
type plan struct {
	seed   uint64
	class  class
	ttl    time.Duration // the shortest
	length time.Duration // of the schedule
	keys   int
	queue  bool          // the store can wait
	place  time.Duration // for which a place in its queue lasts
	rate   float64       // of the server's clock
	net    odds
	events []event // that happen, at random
	every  time.Duration
	procs  []processPlan
}

// odds are the chances of what may happen to a message, in a thousand each.
type odds struct {
	lostRequest, lostReply, late, twice, refused, partial int

	slow int // an answer comes when the lease is nearly over
}

type processPlan struct {
	users   int
	heap    bool // engine
	own     bool // engine: the client makes its own
	ttl     time.Duration
	maxHold time.Duration
	fixed   bool
	tick    time.Duration
	renewal renewal.Options
}

// event is what happens to clients, servers and clocks.
type event string

const (
	partition   event = "partition"
	oneWay      event = "one-way partition"
	down        event = "server down"
	wipe        event = "data lost"
	failOver    event = "fail-over"
	pause       event = "pause"
	deleteKey   event = "delete"
	steal       event = "steal"
	force       event = "force"
	serverAhead event = "server clock ahead"
	serverBack  event = "server clock back"
	wallAhead   event = "client clock ahead"
	wallBack    event = "client clock back"
	suspend     event = "suspension"
	closeClient event = "close"
	crash       event = "crash"
)

var eventsOf = [classes][]event{
	external: {deleteKey, steal, force},
	network:  {partition, oneWay},
	pauses:   {pause},
	drift:    {pause},
	dataLoss: {down, wipe, failOver},
	clocks:   {serverAhead, serverBack, wallAhead, wallBack, wallBack, suspend, suspend},
	endings:  {closeClient, crash, pause},
	everything: {
		partition, oneWay, down, wipe, failOver, pause, deleteKey, steal, force,
		serverAhead, wallAhead, wallBack, suspend, closeClient,
	},
}

func newPlan(seed uint64) plan {
	d := chance.New(seed, 1)
	p := plan{
		seed:  seed,
		class: class(seed % uint64(classes)),
		ttl:   chance.Pick(d, 300*time.Millisecond, time.Second, 3*time.Second, 10*time.Second, 30*time.Second),
		keys:  1 + d.IntN(3),
		queue: d.Chance(500),
		rate:  1 + (d.Float64()-0.5)*0.02,
	}
	p.length = p.ttl * time.Duration(5+d.IntN(8))
	p.place = max(p.ttl/3, p.ttl/10)
	p.every = p.ttl / time.Duration(1+d.IntN(3))
	p.events = eventsOf[p.class]
	p.net = oddsOf(p.class, d)
	if p.class == drift {
		p.rate = chance.Pick(d, 0.99, 1.01, 1.01)
	}
	for range 2 + d.IntN(2) {
		p.procs = append(p.procs, newProcessPlan(d, p.class, p.ttl))
	}
	return p
}

func oddsOf(c class, d chance.Dice) odds {
	switch c {
	case single:
		return odds{lostRequest: 100, lostReply: 100, refused: 100}
	case external:
		return odds{lostRequest: 20, lostReply: 20, late: 20}
	case clocks:
		o := odds{lostRequest: 20, lostReply: 20, late: 20, slow: 200}
		if d.Chance(500) { // or the renewals after each step make it good
			o.lostRequest, o.lostReply = 350, 100
		}
		return o
	case drift:
		return odds{lostReply: 50, lostRequest: 50, slow: 400}
	case network, everything:
		o := odds{lostRequest: 50, lostReply: 50, late: 50, twice: 50, refused: 50, partial: 50, slow: 50}
		if d.Chance(300) {
			o.lostRequest, o.late = 200, 200
		}
		return o
	case endings:
		return odds{lostRequest: 50, lostReply: 50, late: 50, slow: 20}
	default:
		return odds{}
	}
}

func newProcessPlan(d chance.Dice, c class, ttl time.Duration) processPlan {
	p := processPlan{
		users: 1 + d.IntN(3),
		heap:  d.Chance(400),
		ttl:   ttl * time.Duration(chance.Pick(d, 1, 1, 2)),
		renewal: renewal.Options{
			Fraction: chance.Pick(d, 0, 0, 0.2, 0.45),
			Failures: chance.Pick(d, 0, 0, 0, 1, -1, 3),
			MaxBatch: chance.Pick(d, 0, 1, 2),
			InFlight: chance.Pick(d, 0, 1, 2),
			Align:    chance.Pick(d, 0, 0, -1, ttl/20),
		},
	}
	p.tick = min(max(p.ttl/3000, time.Millisecond), 10*time.Millisecond) // as the client's own engine has it
	if c == single {                                                     // L1 is for leases that tolerate a failure, and have a slot for the second try
		p.renewal.Failures, p.renewal.InFlight = chance.Pick(d, 0, -1, 3), 0
	}
	if ttl < time.Second { // leaves no time for two tries that come late
		p.renewal.Fraction = 0
	}
	switch d.IntN(8) {
	case 0:
		p.fixed = true
	case 1:
		p.maxHold = ttl + d.UpTo(2*ttl)
	}
	p.own = !p.heap && c != pauses && c != everything && c != endings && c != drift && d.Chance(300)
	return p
}

// wallMoves tells whether the clocks of the clients may be stepped.
func (p plan) wallMoves() bool { return p.class == clocks || p.class == everything }

// lossless tells whether no lease may be lost before its own end.
func (p plan) lossless() bool { return p.class == calm || p.class == single }

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

func (p processPlan) period() time.Duration {
	if p.renewal.Fraction == 0 {
		return p.ttl / 3
	}
	return time.Duration(float64(p.ttl) * p.renewal.Fraction)
}

func (p processPlan) failures() int {
	if p.renewal.Failures == 0 {
		return 2
	}
	return p.renewal.Failures
}

func keyName(n int) string { return "key " + string(rune('a'+n)) }
