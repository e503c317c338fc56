// The classes of schedules, and the plan that a seed decides.

package core

import (
	"slices"
	"time"

	"github.com/leasewheel/leasewheel/internal/seam"
	"github.com/leasewheel/leasewheel/internal/simrand"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/verify/sim"
)

// class is the subject of a schedule: the seed modulo the number of classes.
type class uint8

const (
	calm       class = iota // nothing fails: nothing may be lost
	single                  // never two failures in a row: nothing may be lost
	external                // locks are deleted, taken over, forced away
	network                 // messages are lost, late, doubled; partitions
	pauses                  // processes are paused
	drift                   // the server's clock has the maximum drift, answers are slow
	dataLoss                // servers go down, and lose data or fall back to an older copy
	clocks                  // clocks are stepped, the host of the clients is suspended
	endings                 // clients are closed and crash, contexts end
	everything              // all of these
	classes
)

// Wide classes: see sim.WideFrom. They drop the assumptions that options are near their
// defaults, that contexts are plain, and that engines outlive the client and run every task
// in its time.
const (
	extremes       class = classes + iota // nothing fails; options anywhere up to their bounds
	closedEngines                         // engines are closed before their clients
	blockedEngines                        // tasks of the user block the engine
	causes                                // contexts end with errors of this module as their causes
	keeping                               // released locks stay taken, by Terms.MinHold
	wideEnd
)

var classNames = [wideEnd]string{
	"calm", "single error", "external", "network", "pauses", "drift", "data loss", "clocks", "endings", "everything",
	"extreme options", "closed engines", "blocked engines", "causes", "minimum hold",
}

func wideSeed(c class, n uint64) uint64 { return sim.WideSeed(uint64(c-classes), n) }

// plan has what a seed decides before the schedule starts.
type plan struct {
	sim.Plan
	class class
	place time.Duration // how long a place in the queue of the server lasts
	rate  float64       // the rate of the server's clock
	net   odds
}

// odds are the probabilities of the faults of a message, in thousandths.
type odds struct {
	sim.Odds
	partial int // of an answer for a part of a batch only
}

const (
	partition   sim.Event = "partition"
	oneWay      sim.Event = "one-way partition"
	down        sim.Event = "server down"
	wipe        sim.Event = "data lost"
	failOver    sim.Event = "fail-over"
	deleteKey   sim.Event = "delete"
	steal       sim.Event = "steal"
	force       sim.Event = "force"
	serverAhead sim.Event = "server clock ahead"
	serverBack  sim.Event = "server clock back"
	wallAhead   sim.Event = "client clock ahead"
	wallBack    sim.Event = "client clock back"
	suspend     sim.Event = "suspension"
	closeEngine sim.Event = "engine closed"
	blockEngine sim.Event = "engine blocked"
	crash       sim.Event = "crash"
)

var eventsOf = [wideEnd][]sim.Event{
	external: {deleteKey, steal, force},
	network:  {partition, oneWay},
	pauses:   {sim.Pause},
	drift:    {sim.Pause},
	dataLoss: {down, wipe, failOver},
	clocks:   {serverAhead, serverBack, wallAhead, wallBack, wallBack, suspend, suspend},
	endings:  {sim.CloseClient, crash, sim.Pause},
	everything: {
		partition, oneWay, down, wipe, failOver, sim.Pause, deleteKey, steal, force,
		serverAhead, wallAhead, wallBack, suspend, sim.CloseClient,
	},
	closedEngines:  {closeEngine},
	blockedEngines: {blockEngine},
	keeping:        {partition, oneWay, sim.Pause, sim.CloseClient},
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
	p.drawTerms(d)
	p.Length = p.TTL * time.Duration(5+d.IntN(8))
	p.place = max(p.TTL/3, p.TTL/10)
	p.Every = p.TTL / time.Duration(1+d.IntN(3))
	p.net = oddsOf(p.class, d)
	if p.class == drift {
		p.rate = simrand.Pick(d, 0.99, 1.01, 1.01)
	}
	for range 2 + d.IntN(2) {
		p.Procs = append(p.Procs, newProcessPlan(d, p.class, p.TTL))
	}
}

// drawTerms draws the options that ordinary and wide schedules share.
func (p *plan) drawTerms(d simrand.Rand) {
	p.TTL = simrand.Pick(d, 300*time.Millisecond, time.Second, 3*time.Second, 10*time.Second, 30*time.Second)
	p.Keys = sim.KeyNames(1 + d.IntN(3))
	p.Queue = d.Chance(500)
	p.rate = 1 + (d.Float64()-0.5)*0.02
}

func (p *plan) drawWide() {
	d := simrand.New(p.Seed, sim.WideStream)
	p.drawTerms(d)
	switch p.class {
	case extremes:
		p.TTL = simrand.Pick(d, 300*time.Millisecond, 3*time.Second, 30*time.Second, time.Minute, 10*time.Minute, time.Hour)
	case causes:
		p.net = odds{Odds: sim.Odds{LostReply: 50, Late: 100, Slow: 300}}
		p.Causes, p.Brief = sim.OtherCauses(), 10*time.Millisecond
	}
	p.Length = p.TTL * time.Duration(3+d.IntN(5))
	if p.class == keeping {
		p.net = oddsOf(simrand.Pick(d, calm, network), d)
		p.Length *= 2
	}
	p.place = simrand.Pick(d, p.TTL/3, d.Between(p.TTL/5, p.TTL))
	p.Every = p.TTL * 2
	for range 2 + d.IntN(2) {
		one := newProcessPlan(d, p.class, p.TTL)
		one.Own = one.Own && p.class != closedEngines && p.class != blockedEngines
		if p.class == extremes {
			one.Renewal = renewal.Policy{}
			for range 8 {
				one.Choices = append(one.Choices, sim.ExtremeOptions(d, p.TTL))
			}
		}
		if p.class == keeping {
			one.MinHold = simrand.Pick(d, 0, d.UpTo(p.TTL), d.UpTo(p.TTL), d.UpTo(3*p.TTL))
			one.Own = false // its engine would not be paused
		}
		p.Procs = append(p.Procs, one)
	}
}

// expect sets the properties of the class on which the checks depend.
func (p *plan) expect() {
	is := func(some ...class) bool { return slices.Contains(some, p.class) }
	p.Events = eventsOf[p.class]
	p.Exact = true
	p.Calm = is(calm, extremes)
	p.Lossless = is(calm, single, extremes)
	p.Tidy = is(calm, single, external, pauses, drift, endings, extremes, causes)
	p.Forgets = is(dataLoss, everything)
	p.WallMoves = is(clocks, everything)
	p.EngineFails = is(closedEngines, blockedEngines)
	p.Serves = !is(endings, closedEngines, clocks) // after a step back of the server's clock, older leases last longer
	p.Steady = is(calm) && !p.Queue
	p.SureRelease = is(single)
}

func oddsOf(c class, d simrand.Rand) odds {
	switch c {
	case single:
		return odds{Odds: sim.Odds{LostRequest: 100, LostReply: 100, Refused: 100}}
	case external:
		return odds{Odds: sim.Odds{LostRequest: 20, LostReply: 20, Late: 20}}
	case clocks:
		o := odds{Odds: sim.Odds{LostRequest: 20, LostReply: 20, Late: 20, Slow: 200}}
		if d.Chance(500) { // otherwise the renewals after each step repair its effect
			o.LostRequest, o.LostReply = 350, 100
		}
		return o
	case drift:
		return odds{Odds: sim.Odds{LostReply: 50, LostRequest: 50, Slow: 400}}
	case network, everything:
		o := odds{Odds: sim.Odds{LostRequest: 50, LostReply: 50, Late: 50, Twice: 50, Refused: 50, Slow: 50}, partial: 50}
		if d.Chance(300) {
			o.LostRequest, o.Late = 200, 200
		}
		return o
	case endings:
		return odds{Odds: sim.Odds{LostRequest: 50, LostReply: 50, Late: 50, Slow: 20}}
	default:
		return odds{}
	}
}

func newProcessPlan(d simrand.Rand, c class, ttl time.Duration) sim.ProcessPlan {
	p := sim.ProcessPlan{
		Users: 1 + d.IntN(3),
		Heap:  d.Chance(400),
		TTL:   ttl * time.Duration(simrand.Pick(d, 1, 1, 2)),
		Renewal: renewal.Policy{
			Fraction: simrand.Pick(d, 0, 0, 0.2, 0.45),
			Failures: simrand.Pick(d, 0, 0, 0, 1, -1, 3),
		},
		Tuning: seam.Tuning{
			MaxBatch: simrand.Pick(d, 0, 1, 2),
			InFlight: simrand.Pick(d, 0, 1, 2),
			Align:    simrand.Pick(d, 0, 0, -1, ttl/20),
		},
	}
	p.Tick = sim.Tick(p.TTL)
	if c == single { // L1 holds for leases that tolerate a failure and have a worker for the second attempt
		p.Renewal.Failures, p.Tuning.InFlight = simrand.Pick(d, 0, -1, 3), 0
	}
	if ttl < time.Second { // there is no time for two late attempts
		p.Renewal.Fraction = 0
	}
	switch d.IntN(8) {
	case 0:
		p.Fixed = true
	case 1:
		p.MaxHold = ttl + d.UpTo(2*ttl)
	}
	p.Own = !p.Heap && c != pauses && c != everything && c != endings && c != drift && d.Chance(300)
	return p
}
