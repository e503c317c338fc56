// Package still lets a simulated process stand still, as SIGSTOP or a long pause of
// its garbage collector does: nothing that goes through its gate goes on.
package still

import (
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/verify/chance"
)

// NewGate returns the gate of a process, open. The seed decides in which order what
// was held up goes on.
func NewGate(seed uint64) *Gate { return &Gate{seed: seed} }

// Gate holds up all that a process does while it stands still. Its methods are safe
// for concurrent use.
type Gate struct {
	seed uint64

	mu     sync.Mutex // guards all below
	until  time.Time
	spells []spell
}

type spell struct{ from, to time.Time }

// Pass returns when the process runs, and who had to wait has its turn then: the
// number names the caller, so that they come in an order that the seed decides.
func (g *Gate) Pass(caller uint64) {
	for {
		g.mu.Lock()
		wait := time.Until(g.until)
		g.mu.Unlock()
		if wait <= 0 {
			return
		}
		time.Sleep(wait + time.Duration(caller%100_000))
	}
}

// turn names the engine, whose turn after a pause may come before or after those of
// others.
func (g *Gate) turn() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return chance.Mix(g.seed, uint64(len(g.spells)))
}

// Stop makes the process stand still, unless it does.
func (g *Gate) Stop(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if now.Before(g.until) {
		return
	}
	g.until = now.Add(d)
	g.spells = append(g.spells, spell{now, g.until})
}

// StoodStill returns the end of the last pause that reached beyond an instant.
func (g *Gate) StoodStill(since time.Time) (end time.Time, did bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.spells {
		if s.to.After(since) {
			end, did = s.to, true
		}
	}
	return end, did
}
