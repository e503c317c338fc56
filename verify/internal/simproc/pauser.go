// Package simproc pauses simulated processes, as SIGSTOP or a long garbage collection does:
// callers of the Pauser wait until the end of the pause.
package simproc

import (
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/internal/simrand"
)

// NewPauser returns the pauser of a running process. The seed decides the order in which
// delayed callers continue.
func NewPauser(seed uint64) *Pauser { return &Pauser{seed: seed} }

// Pauser delays the actions of a process while the process is paused. Its methods are safe for
// concurrent use.
type Pauser struct {
	seed uint64

	mu     sync.Mutex // guards the fields below
	until  time.Time
	pauses []pause
}

type pause struct{ from, to time.Time }

// Await returns when the process is not paused. The number identifies the caller. It decides
// when a delayed caller continues, so that the order depends on the seed.
func (p *Pauser) Await(caller uint64) {
	for {
		p.mu.Lock()
		wait := time.Until(p.until)
		p.mu.Unlock()
		if wait <= 0 {
			return
		}
		time.Sleep(wait + time.Duration(caller%100_000))
	}
}

// engineCaller returns the number of the engine. It changes with each pause, so that the
// engine continues sometimes before other callers and sometimes after them.
func (p *Pauser) engineCaller() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return simrand.Mix(p.seed, uint64(len(p.pauses)))
}

// Pause pauses the process, unless it is paused.
func (p *Pauser) Pause(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if now.Before(p.until) {
		return
	}
	p.until = now.Add(d)
	p.pauses = append(p.pauses, pause{now, p.until})
}

// PausedSince returns the end of the last pause that ended after an instant.
func (p *Pauser) PausedSince(since time.Time) (end time.Time, paused bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, one := range p.pauses {
		if one.to.After(since) {
			end, paused = one.to, true
		}
	}
	return end, paused
}
