// The classes of schedules, and the plan that a seed decides.

package full

import (
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/internal/seam"
	"github.com/leasewheel/leasewheel/internal/simrand"
	"github.com/leasewheel/leasewheel/lock/redisstore"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/verify/sim"
)

// class is the subject of a schedule: the seed modulo the number of classes.
type class uint8

const (
	calm       class = iota // nothing fails: nothing may be lost
	single                  // one failure in a TTL: nothing may be lost
	external                // locks are deleted, or their keys get foreign values
	network                 // messages are lost, late, doubled; partitions, connections that break
	pauses                  // processes are paused
	drift                   // the server's clock has the maximum drift, answers are slow
	trouble                 // the server refuses, forgets scripts, is restarted with its data
	dataLoss                // servers are restarted without data or with an older copy
	clocks                  // the server's clock is stepped
	endings                 // clients are closed and crash, contexts end
	everything              // all of these
	classes
)

// Wide classes: see sim.WideFrom. They drop the assumptions that options are the defaults,
// that contexts are plain, that links are fast, that connections fail loudly, that only the
// server publishes, and that members of a quorum forget nothing.
const (
	extremes    class = classes + iota // nothing fails; options anywhere up to their bounds
	causes                             // contexts end with errors of this module as their causes; answers are late
	silentDrops                        // all connections die unnoticed, and new ones work: nothing may be lost
	slowLinks                          // answers take up to three tenths of a TTL: nothing may be lost
	forgery                            // anybody publishes on the channels: nothing may be lost
	lostCopies                         // some members of a quorum lose a lock
	noMemory                           // the server is out of memory: nothing may be lost, and waiters stay
	slowDialers                        // the user's dialer and hooks block and ignore their contexts
	keeping                            // released locks stay taken, by Terms.MinHold
	wideEnd
)

var classNames = [wideEnd]string{
	"calm", "single error", "external", "network", "pauses", "drift", "trouble", "data loss", "clocks", "endings", "everything",
	"extreme options", "causes", "silent drops", "slow links", "forgery", "lost copies", "out of memory", "slow dialers", "minimum hold",
}

func wideSeed(c class, n uint64) uint64 { return sim.WideSeed(uint64(c-classes), n) }

// plan has what a seed decides before the schedule starts.
type plan struct {
	sim.Plan
	class class
	rates []float64 // the rates of the servers' clocks; several servers are a quorum
	net   odds
	procs []processPlan
}

// odds are the probabilities of the faults of a message, in thousandths.
type odds struct {
	sim.Odds
	refusedDial, hungDial  int // faults of a dial
	lostSignal, lateSignal int
}

type processPlan struct {
	sim.ProcessPlan
	store    redisstore.Options
	slowFrom time.Duration // when the link becomes slow; it is fast before
}

func newPlan(seed uint64) plan {
	p := plan{class: class(sim.ClassOf(seed, uint64(classes)))}
	p.Seed = seed
	if p.class < classes {
		p.draw()
	} else {
		p.drawWide()
	}
	p.expect()
	return p
}

func (p *plan) draw() {
	d := simrand.New(p.Seed, 1)
	p.TTL = simrand.Pick(d, 500*time.Millisecond, time.Second, 3*time.Second, 10*time.Second, 30*time.Second)
	keys := 1 + d.IntN(3)
	p.rates = []float64{1 + (d.Float64()-0.5)*0.02}
	if d.Chance(600) {
		p.Shared = []string{simrand.Pick(d, sim.RWName, sim.PermitName, sim.GroupName)}
		keys = simrand.Pick(d, 0, 0, 1)
	}
	p.Keys = sim.KeyNames(keys)
	p.Length = p.TTL * time.Duration(3+d.IntN(5))
	p.Every = p.TTL / time.Duration(1+d.IntN(3))
	p.net = oddsOf(p.class, d)
	if p.class == drift {
		p.rates[0] = simrand.Pick(d, 0.99, 1.01, 1.01)
	}
	if p.class != external && p.class != clocks && p.class != everything && d.Chance(250) {
		for range 2 {
			p.rates = append(p.rates, 1+(d.Float64()-0.5)*0.02)
		}
		p.Length /= 2
	}
	for range simrand.Pick(d, 2, 2, 3, 4) {
		p.procs = append(p.procs, processPlan{ProcessPlan: newProcessPlan(d, p.class, p.TTL)})
	}
}

func oddsOf(c class, d simrand.Rand) odds {
	switch c {
	case single:
		return odds{Odds: sim.Odds{LostRequest: 100, LostReply: 100, HalfReply: 50}, refusedDial: 100, hungDial: 50, lostSignal: 100}
	case external, trouble, dataLoss, clocks:
		return odds{Odds: sim.Odds{LostRequest: 20, LostReply: 20, Late: 20}, lostSignal: 50}
	case drift:
		o := odds{Odds: sim.Odds{LostRequest: 30, LostReply: 30, Slow: 400}, lostSignal: 50, lateSignal: 200}
		if d.Chance(500) { // otherwise the renewals repair deadlines that count from a late answer
			o.LostRequest = 250
		}
		return o
	case network, everything:
		o := odds{
			Odds:        sim.Odds{LostRequest: 40, LostReply: 40, HalfReply: 20, Late: 50, Twice: 50, Slow: 50},
			refusedDial: 50, hungDial: 20, lostSignal: 100, lateSignal: 100,
		}
		if d.Chance(300) {
			o.LostRequest, o.Late = 200, 200
		}
		return o
	case endings:
		return odds{Odds: sim.Odds{LostRequest: 50, LostReply: 50, Late: 50, Slow: 20}, lostSignal: 50}
	default:
		return odds{}
	}
}

func newProcessPlan(d simrand.Rand, c class, ttl time.Duration) sim.ProcessPlan {
	p := sim.ProcessPlan{
		Users:   1 + d.IntN(2),
		Heap:    d.Chance(400),
		TTL:     ttl * time.Duration(simrand.Pick(d, 1, 1, 2)),
		Renewal: renewal.Policy{Failures: simrand.Pick(d, 0, 0, 0, 1, -1, 3)},
		Tuning: seam.Tuning{
			MaxBatch: simrand.Pick(d, 0, 1, 2),
			InFlight: simrand.Pick(d, 0, 1, 2),
		},
	}
	p.Tick = sim.Tick(p.TTL)
	if c == single { // L1 holds for leases that tolerate a failure and have a worker for the second attempt
		p.Renewal.Failures, p.Tuning.InFlight = simrand.Pick(d, 0, -1, 3), 0
	}
	return p
}

func (p *plan) drawWide() {
	d := simrand.New(p.Seed, sim.WideStream)
	p.TTL = simrand.Pick(d, 500*time.Millisecond, time.Second, 3*time.Second, 10*time.Second, 30*time.Second)
	keys := 1 + d.IntN(2)
	p.rates = []float64{1 + (d.Float64()-0.5)*0.02}
	if d.Chance(500) {
		p.Shared = []string{simrand.Pick(d, sim.RWName, sim.PermitName, sim.GroupName)}
		keys = d.IntN(2)
	}
	switch p.class {
	case extremes:
		if d.Chance(150) {
			p.rates = append(p.rates, 1.01, 0.99)
		}
		p.TTL = simrand.Pick(d, 100*time.Millisecond, 300*time.Millisecond, time.Second, 10*time.Second, time.Minute, 2*time.Minute, 10*time.Minute, time.Hour)
	case causes:
		p.net = odds{Odds: sim.Odds{Slow: 400, Late: 100}, lateSignal: 100}
		p.Causes, p.Brief = append(sim.OtherCauses(), redis.ErrClosed, redis.Nil), 5*time.Millisecond
	case slowLinks:
		p.TTL = simrand.Pick(d, 500*time.Millisecond, time.Second, 3*time.Second, 4500*time.Millisecond, 6*time.Second, 9*time.Second, 10*time.Second)
		p.Slow = true
	case silentDrops:
		p.TTL = simrand.Pick(d, 3*time.Second, 6*time.Second, 10*time.Second, 30*time.Second)
		keys = 4 + d.IntN(4) // several locks are held, on several connections
		// Between two events a client has time to notice all dead connections, and to renew its
		// leases once more.
		p.Spacing = max(2*p.TTL*11/10, 3*timeout)
	case lostCopies:
		p.TTL = simrand.Pick(d, 10*time.Second, 30*time.Second)
		for range 2 {
			p.rates = append(p.rates, 1+(d.Float64()-0.5)*0.02)
		}
	}
	if p.class == keeping {
		if len(p.Shared) > 0 {
			p.Shared = []string{sim.GroupName} // the other kinds refuse a MinHold
		}
		if d.Chance(200) {
			p.rates = append(p.rates, 1.01, 0.99)
		}
		p.net = oddsOf(simrand.Pick(d, calm, network), d)
	}
	p.Keys = sim.KeyNames(keys)
	p.Length = p.TTL * time.Duration(3+d.IntN(5))
	if p.TTL > time.Minute {
		p.Length = 3 * p.TTL
	}
	p.Every = p.TTL / time.Duration(1+d.IntN(3))
	for range simrand.Pick(d, 2, 2, 3, 4) {
		p.procs = append(p.procs, newWideProcess(d, p.class, p.TTL))
	}
}

const (
	minPlace   = 60 * time.Millisecond // leaves time for three polls
	minTimeout = 50 * time.Millisecond
)

func newWideProcess(d simrand.Rand, c class, ttl time.Duration) processPlan {
	p := processPlan{ProcessPlan: newProcessPlan(d, single, ttl)} // the process tolerates a failure
	switch c {
	case extremes:
		p.store = redisstore.Options{
			Place:    simrand.Pick(d, 0, 0, d.Between(min(ttl/10, minPlace), ttl), 2*ttl),
			Timeout:  simrand.Pick(d, 0, 0, d.Between(minTimeout, time.Second), time.Hour),
			PoolSize: simrand.Pick(d, 0, 1, 2, 100),
		}
		p.Fixed = d.Chance(200)
		for range 8 {
			p.Choices = append(p.Choices, sim.ExtremeOptions(d, ttl))
		}
	case silentDrops:
		p.Users = 3 + d.IntN(3)
		p.Tuning.MaxBatch, p.Tuning.Align = 1, ttl // many leases are renewed at the same time
		p.store.Timeout = time.Second              // a queued Lock tolerates silence for a place, and no kernel ends these connections
	case keeping:
		p.MinHold = simrand.Pick(d, 0, d.UpTo(ttl), d.UpTo(ttl), d.UpTo(3*ttl))
	case slowLinks:
		p.RTT = d.Between(ttl/20, ttl*3/10)
		p.store.Timeout = max(timeout, 15*p.RTT) // a third of it suffices for a new connection and an unknown script
		p.slowFrom = simrand.Pick(d, 0, 0, d.UpTo(2*ttl))
	}
	return p
}

// expect sets the properties of the class on which the checks depend.
func (p *plan) expect() {
	is := func(some ...class) bool { return slices.Contains(some, p.class) }
	p.Events = eventsOf[p.class]
	for _, one := range p.procs {
		p.Procs = append(p.Procs, one.ProcessPlan)
	}
	p.Quorum = len(p.rates) > 1
	p.Calm = is(calm, extremes, forgery)
	p.Lossless = is(calm, single, extremes, silentDrops, slowLinks, forgery, noMemory)
	p.Tidy = !p.Quorum && !is(network, everything, dataLoss, clocks, keeping)
	p.Forgets = is(dataLoss, everything)
	p.Serves = true
}

// place returns how long a place in a queue lasts, according to the doc comment of redisstore.
func place(ttl time.Duration) time.Duration {
	return min(max(ttl/3, 3*time.Second), 10*time.Second, ttl)
}
