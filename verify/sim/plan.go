// The plan of a schedule, which a seed decides before the start.

package sim

import (
	"cmp"
	"slices"
	"time"

	"github.com/leasewheel/leasewheel/internal/seam"
	"github.com/leasewheel/leasewheel/internal/simrand"
	"github.com/leasewheel/leasewheel/renewal"
)

// Plan has the part of a schedule that a seed decides before its start, and that both backends
// share.
type Plan struct {
	Seed   uint64
	TTL    time.Duration // the shortest TTL of all processes
	Length time.Duration // of the workload
	Keys   []string      // names of exclusive locks
	Shared []string      // names of locks of other kinds
	Procs  []ProcessPlan

	Events  []Event       // faults that the nemesis injects
	Every   time.Duration // the maximum time between two events, in addition to Spacing
	Spacing time.Duration // the minimum time between two events

	// Properties of the class on which the checks depend.
	Calm        bool // no message and no process fails
	Lossless    bool // no lease may be lost before it expires
	Tidy        bool // a released lock never comes back: no doubled message, lost data or stepped clock
	Forgets     bool // servers may lose data, or fall back to an older copy
	WallMoves   bool // the wall clocks of the clients may be stepped
	EngineFails bool // timer engines are closed or blocked
	Serves      bool // every lock can be acquired again when the faults are over
	Steady      bool // each lease is renewed once a period
	SureRelease bool // every release succeeds at its second attempt

	Exact  bool // a renewal is sent when the watchdog decides to renew, and the seed decides how long clients back off
	Queue  bool // a place in the queue of a lock may last a third of a lease
	Quorum bool // the store is a quorum, whose grants have no tokens
	Slow   bool // links are slow now

	Causes []error       // causes of contexts, some of which end early; empty: no context ends early
	Brief  time.Duration // the time after which some contexts end early
}

// Names returns the names of all locks.
func (p *Plan) Names() []string { return append(slices.Clone(p.Shared), p.Keys...) }

// KeyNames returns the names of n exclusive locks.
func KeyNames(n int) (names []string) {
	for i := range n {
		names = append(names, KeyName(i))
	}
	return names
}

// KeyName returns the name of the nth exclusive lock.
func KeyName(n int) string { return "key " + string(rune('a'+n)) }

// ProcessPlan has what a seed decides for a client process.
type ProcessPlan struct {
	Users   int
	Heap    bool // the engine is a heapqueue
	Own     bool // the client creates its own engine
	TTL     time.Duration
	MaxHold time.Duration
	MinHold time.Duration
	Fixed   bool
	Tick    time.Duration
	Renewal renewal.Policy
	Choices []renewal.Policy // tried before Renewal; lock.New refuses some of them
	Tuning  seam.Tuning      // of the watchdog
	RTT     time.Duration    // the round trip of a slow link; 0: the link is fast
}

// Tick is the tick of the engine that a client creates for itself.
func Tick(ttl time.Duration) time.Duration {
	return min(max(ttl/3000, time.Millisecond), 10*time.Millisecond)
}

// Margin is the margin of deadlines according to docs/SAFETY.md.
func (p *ProcessPlan) Margin() time.Duration {
	switch {
	case p.Renewal.Margin > 0:
		return p.Renewal.Margin
	case p.Heap:
		return 5 * time.Millisecond
	}
	return max(5*time.Millisecond, 2*p.Tick+2*time.Millisecond)
}

// Validity is the time from a request to the deadline of its lease, according to
// docs/SAFETY.md.
func (p *ProcessPlan) Validity() time.Duration {
	return p.TTL - p.TTL/100 - max(p.TTL/100, p.Margin())
}

// Period is the time between two renewals of a lease.
func (p *ProcessPlan) Period() time.Duration {
	if p.Renewal.Fraction == 0 {
		return p.TTL / 3
	}
	return time.Duration(float64(p.TTL) * p.Renewal.Fraction)
}

// MaxFailures is the number of failures in a row that end a lease.
func (p *ProcessPlan) MaxFailures() int { return cmp.Or(p.Renewal.Failures, 2) }

// Wide schedules drop assumptions that the other schedules share. Their seeds start at
// WideFrom. Each class has a range of seeds of its own, so a new class moves no other seed.
const (
	WideFrom   = 1 << 33
	wideSeeds  = 1 << 24 // the seeds of a class
	WideStream = 20      // a stream of random numbers that nothing else in a schedule uses
)

// WideSeed returns the nth seed of the wide class with this number.
func WideSeed(class, n uint64) uint64 { return WideFrom + class*wideSeeds + n }

// ClassOf returns the class of a seed: an ordinary one, or a wide one, whose numbers follow.
func ClassOf(seed, ordinary uint64) uint64 {
	if seed >= WideFrom {
		return ordinary + (seed-WideFrom)/wideSeeds
	}
	return seed % ordinary
}

// MinPeriod is the shortest period and timeout of renewals with extreme options.
const MinPeriod = 50 * time.Millisecond

// ExtremeOptions returns random options within their bounds. lock.New refuses options that
// leave no time for a second renewal.
func ExtremeOptions(d simrand.Rand, ttl time.Duration) renewal.Policy {
	least := max(0.005, min(0.5, float64(MinPeriod)/float64(ttl)))
	p := renewal.Policy{
		Fraction: simrand.Pick(d, 0, least+(0.5-least)*d.Float64(), 0.5),
		Failures: simrand.Pick(d, 0, 0, 1, -1, 10),
		Timeout:  simrand.Pick(d, 0, 0, d.Between(MinPeriod, MinPeriod+ttl), 24*time.Hour),
	}
	used := cmp.Or(p.Fraction, 1.0/3) // the part of the TTL that renewals need
	if p.Failures != 1 {
		used *= 2
	}
	most := time.Duration(float64(ttl) * (0.99 - used) / 2)
	p.Margin = simrand.Pick(d, 0, d.UpTo(most), most-d.UpTo(most/8))
	return p
}
