// One schedule: its processes, its backend and its locks.

package sim

import (
	"fmt"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/internal/simrand"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// Backend has the parts of a simulation outside the lock clients: servers, the network, and the
// stores that processes open. World.Mu is held during the methods whose comments state it.
type Backend interface {
	// Open returns the store of a process, and a function that closes what Close of the store
	// leaves open.
	Open(p *Process) (store driver.Store, end func(), err error)
	// Turn lets a user do one piece of work.
	Turn(u *User)
	// Inject injects a fault. World.CommonFault injects those that both backends have.
	Inject(e Event, d simrand.Rand)
	// Snapshot keeps a copy of the servers' data, to which they may fall back. Mu is held.
	Snapshot()
	// Lasts returns how long the servers keep a lock for its holder without further renewals,
	// or 0 if the holder does not have it. Mu is held.
	Lasts(g *Grant) time.Duration
	// Leases returns the leases of a lock on the servers that leak checks cover. Mu is held.
	Leases(key string) []Lease
	// MayBeStale reports whether the servers may have a lock for an earlier attempt of its
	// holder. Mu is held.
	MayBeStale(g *Grant) bool
	// Confirmed is called when a client has learned of its grant. Mu is held.
	Confirmed(g *Grant)
	// Excused reports whether a call may fail although nothing is lost. Mu is held.
	Excused(c *Call, err error) bool
	// Probe checks the servers at a random instant. Mu is held.
	Probe()
	// Heal ends all faults. Mu is held.
	Heal()
	// ServeWithin returns the time after Heal within which every lock can be acquired again.
	ServeWithin() time.Duration
	// Disconnect closes the connections of closed clients. Mu is held.
	Disconnect()
	// CheckLeft checks that the servers keep nothing after all clients are closed.
	CheckLeft()
}

// Lease is a lease on a server.
type Lease struct {
	Grant *Grant // nil if it belongs to no client
	Left  time.Duration
}

// World is one schedule: clients and their users, the backend, and the history that the
// checker compares with what clients believe.
type World struct {
	Plan    Plan
	Start   time.Time
	Pending sync.WaitGroup // messages in flight, and checks at a later instant
	Procs   []*Process
	Backend Backend

	Names simrand.Names // of owners, the same in every run of a seed

	Mu     sync.Mutex // guards the fields below, the servers, and fields of processes and grants
	Grants map[GrantID]*Grant
	Calls  map[*Call]struct{} // running calls of Lock for a single exclusive lock
	Counts *Counts
	Owners map[string]*Process  // by owner
	asked  map[string]time.Time // by owner; see Asked
	broken time.Time            // the latest event that leases need not survive
	ended  bool                 // the workload is over
	clocks clientClocks

	emit       func(string) // gets each event; may be nil
	violations []string
	digest     uint64 // of all events; does not depend on their order within an instant
}

// NewWorld returns the world of a plan. It must be called in a bubble, which also plays it. Each
// event is passed to trace, which may be nil.
func NewWorld(p Plan, trace func(string)) *World {
	return &World{
		Plan: p, Start: time.Now(), emit: trace, Counts: NewCounts(),
		Grants: map[GrantID]*Grant{}, Calls: map[*Call]struct{}{},
		Owners: map[string]*Process{}, asked: map[string]time.Time{},
	}
}

// Prepare creates the processes.
func (w *World) Prepare() {
	for id, plan := range w.Plan.Procs {
		p, err := newProcess(w, id, plan)
		if err != nil {
			w.Fail("start", "%v", err)
			return
		}
		w.Procs = append(w.Procs, p)
	}
}

// Play runs a schedule to its end.
func (w *World) Play() Result {
	w.Prepare()
	var users sync.WaitGroup
	for _, p := range w.Procs {
		for n := range p.Plan.Users {
			users.Go(newUser(p, n).run)
		}
	}
	var others sync.WaitGroup
	others.Go(w.nemesis)
	others.Go(w.probing)
	users.Wait()
	w.Mu.Lock()
	w.ended = true
	w.Mu.Unlock()
	others.Wait()
	return w.Finish()
}

func (w *World) over() bool {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	return w.ended || time.Since(w.Start) >= w.Plan.Length
}

// After calls f later.
func (w *World) After(d time.Duration, f func()) {
	w.Pending.Go(func() {
		time.Sleep(d)
		f()
	})
}

// Count counts an event in one of the maps of Counts.
func (w *World) Count(in map[string]int, name string) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	in[name]++
}

// Fail reports a violation.
func (w *World) Fail(check, format string, args ...any) {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	w.Violated(check, format, args...)
}

const maxViolations = 8

// Violated reports a violation. The caller holds Mu.
func (w *World) Violated(check, format string, args ...any) {
	text := fmt.Sprintf("%v: %s: %s", time.Since(w.Start), check, fmt.Sprintf(format, args...))
	w.Note("VIOLATION %s", text)
	if len(w.violations) < maxViolations {
		w.violations = append(w.violations, text)
	}
}

// Note adds an event to the trace. The caller holds Mu.
func (w *World) Note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	at := time.Since(w.Start)
	w.digest += simrand.Mix(uint64(at), simrand.Hash(text))
	if w.emit != nil {
		w.emit(fmt.Sprintf("%-14v %s", at, text))
	}
}

// Check counts a check. The caller holds Mu.
func (w *World) Check(name string) { w.Counts.Checks[name]++ }
