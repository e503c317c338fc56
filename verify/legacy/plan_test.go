package legacy

import (
	"slices"
	"time"

	"github.com/leasewheel/leasewheel/internal/simrand"
)

// plan is a schedule as data: a protocol, and the faults that its clients and servers meet. The
// playground keeps it in its address. Three clients want the same lock.
type plan struct {
	Protocol string  `json:"protocol"`
	Faults   []fault `json:"faults"`
}

// fault is one fault of a plan.
type fault struct {
	Kind faultKind `json:"kind"`
	On   string    `json:"on"`  // a client or a server
	At   int       `json:"at"`  // ms
	For  int       `json:"for"` // ms; of stepClock the step, which may be negative
}

type faultKind string

const (
	pauseClient faultKind = "pause"    // the client stands still
	crashClient faultKind = "crash"    // the client ends
	loseRequest faultKind = "request"  // its requests do not arrive
	loseAnswer  faultKind = "answer"   // its requests are executed, and the answers are lost
	cutOff      faultKind = "cut"      // neither requests nor answers nor published messages arrive
	slowLink    faultKind = "slow"     // each message takes two seconds longer
	stepClock   faultKind = "clock"    // the clock is stepped
	failOver    faultKind = "failover" // the server loses its data
)

// has reports whether a fault is active.
func (f fault) has(at time.Duration) bool {
	return at >= f.at() && (f.Kind == stepClock || f.Kind == crashClient || at < f.at()+f.length())
}

func (f fault) at() time.Duration     { return time.Duration(f.At) * time.Millisecond }
func (f fault) length() time.Duration { return time.Duration(f.For) * time.Millisecond }

const (
	planLength  = 90 * time.Second
	maxFaults   = 20
	maxMessages = 5000            // that are drawn
	slowness    = 2 * time.Second // of a slow link, in each direction
)

// clientNames are the clients of a plan. They ask for the lock in this order, a second apart.
var clientNames = []string{"A", "B", "C"}

// protocol is a lock that a plan can use.
type protocol struct {
	Name    string  `json:"name"`
	Title   string  `json:"title"`
	About   string  `json:"about"`
	Servers int     `json:"servers"`
	Ours    bool    `json:"ours"`
	Fenced  bool    `json:"fenced"` // the resource refuses old tokens
	Known   []fault `json:"known"`  // a schedule in which it fails; nil: none is known
	Story   string  `json:"story"`  // what happens in this schedule

	writes int // of each client while it holds the lock, one every two seconds
	open   func(*actor) contender
}

// protocols are the locks that a plan can use. The known schedules are those of the tests of the
// older locks.
var protocols = []*protocol{
	{
		Name: "setnx", Title: "SETNX, then EXPIRE", Servers: 1, writes: 10, open: openSetNX,
		About: "Two commands: the first takes the lock, the second sets its expiry. Common before Redis 2.6.12, and still in tutorials.",
		Story: "A crashes between its two commands. The lock has no expiry, so nobody ever gets it again.",
		Known: []fault{{slowLink, "A", 10, 5_000}, {crashClient, "A", 1_000, 0}},
	},
	{
		Name: "setpx", Title: "SET NX PX, then DEL", Servers: 1, writes: 10, open: openSetPX,
		About: "One command takes the lock and sets its expiry. Unlock deletes the key without looking.",
		Story: "A pauses for longer than its lease and B gets the lock. A wakes up, still works, and deletes the lock of B, so C gets it too.",
		Known: []fault{{pauseClient, "A", 14_000, 26_000}},
	},
	{
		Name: "token", Title: "SET NX PX, compare, DEL", Servers: 1, writes: 10, open: openToken,
		About: "The value is random, and Unlock deletes the key only if it still has this value. Most libraries use this lock.",
		Story: "A pauses for longer than its lease and B gets the lock. A wakes up and writes, because nothing tells it.",
		Known: []fault{{pauseClient, "A", 14_000, 26_000}},
	},
	{
		Name: "redlock", Title: "Redlock on three servers", Servers: 3, writes: 10, open: openRedlock,
		About: "The same lock on three independent servers. Whoever gets two of them has it.",
		Story: "A has two of three, because the third did not answer. The clock of the second server is stepped, so the lock of A expires there, and another client gets two of three as well.",
		Known: []fault{{cutOff, "redis3", 0, 900}, {stepClock, "redis2", 8_000, 31_000}},
	},
	{
		Name: "redisson", Title: "Redisson’s hash", Servers: 1, writes: 22, open: openRedisson,
		About: "A hash with the owner and a count. A watchdog renews it every 10 s, and Unlock publishes a message to all waiters.",
		Story: "A is cut off. Its renewals fail, the lock expires and B gets it. A is never told and goes on writing.",
		Known: []fault{{cutOff, "A", 5_000, 40_000}},
	},
	{
		Name: "ours", Title: "leasewheel without fencing", Servers: 1, writes: 22, Ours: true, open: openOurs,
		About: "This library on Redis: a watchdog renews the lease and tells its holder before anyone else can have the lock. Clients ask Valid before each write. The resource takes every write.",
		Story: "The server fails over and loses the lock of A. B gets it, and A writes until its next renewal tells it. Nothing but a fencing token helps here.",
		Known: []fault{{failOver, "redis", 12_000, 0}},
	},
	{
		Name: "fenced", Title: "leasewheel with fencing", Servers: 1, writes: 22, Ours: true, Fenced: true, open: openOurs,
		About: "The same, and the resource refuses a write whose token is below the highest that it has seen.",
	},
}

// protocolOf returns the protocol with a name, or nil.
func protocolOf(name string) *protocol {
	i := slices.IndexFunc(protocols, func(p *protocol) bool { return p.Name == name })
	if i < 0 {
		return nil
	}
	return protocols[i]
}

// servers returns the names of the servers.
func (p *protocol) servers() []string {
	if p.Servers == 1 {
		return []string{"redis"}
	}
	return []string{"redis1", "redis2", "redis3"}
}

// allows reports whether a fault can happen to something in a plan of the protocol.
func (p *protocol) allows(f fault) bool {
	if f.At < 0 || f.at() > planLength || f.length().Abs() > planLength {
		return false
	}
	switch f.Kind {
	case pauseClient, crashClient, loseRequest, loseAnswer, slowLink:
		return slices.Contains(clientNames, f.On)
	case failOver:
		return slices.Contains(p.servers(), f.On)
	case cutOff, stepClock:
		return slices.Contains(clientNames, f.On) || slices.Contains(p.servers(), f.On)
	}
	return false
}

// isAllowed reports whether the plan is possible.
func (p plan) isAllowed() bool {
	rules := protocolOf(p.Protocol)
	return rules != nil && len(p.Faults) <= maxFaults &&
		!slices.ContainsFunc(p.Faults, func(f fault) bool { return !rules.allows(f) })
}

// losesData reports whether a server loses its data in the plan, or its clock is stepped. Then the
// promises of docs/SAFETY.md about holders do not hold, and tokens must protect the resource.
func (p plan) losesData() bool {
	return slices.ContainsFunc(p.Faults, func(f fault) bool {
		return f.Kind == failOver || f.Kind == stepClock && !slices.Contains(clientNames, f.On)
	})
}

// randomPlan returns the plan of a seed: one to four faults. The clocks of clients are only set
// ahead, and a lock without fencing meets no loss of data, because it promises nothing then.
func randomPlan(rules *protocol, seed uint64) plan {
	d := simrand.New(seed, simrand.Hash(rules.Name))
	p := plan{Protocol: rules.Name}
	for range 1 + d.IntN(4) {
		f := fault{
			Kind: simrand.Pick(d, pauseClient, pauseClient, crashClient, loseRequest, loseAnswer, cutOff, cutOff, slowLink, stepClock, failOver),
			On:   simrand.Pick(d, clientNames...),
			At:   d.IntN(60_000), For: 100 + d.IntN(simrand.Pick(d, 2_000, 15_000, 45_000)),
		}
		switch server := f.Kind == failOver || d.Chance(200) && (f.Kind == cutOff || f.Kind == stepClock); {
		case server && rules.Ours && (p.losesData() || !rules.Fenced) && f.Kind != cutOff:
			continue // at most one loss of data or one step: SAFETY.md excludes both together
		case server:
			f.On = simrand.Pick(d, rules.servers()...)
		}
		p.Faults = append(p.Faults, f)
	}
	return p
}
