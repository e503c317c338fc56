// A client process, with its engine, its store and its client.

package sim

import (
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/internal/seam"
	"github.com/leasewheel/leasewheel/internal/simrand"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/verify/internal/simproc"
	"github.com/leasewheel/leasewheel/wheel"
)

// Process is a client process, with its timer engine and its users.
type Process struct {
	World  *World
	ID     int
	Plan   ProcessPlan
	Pauser *simproc.Pauser
	Client *lock.Client
	Engine schedule.Scheduler // without its pauser; nil if the client created it

	CloseEngine func()
	closeStore  func() // closes what Close of the client leaves open

	// World.Mu guards the fields below.
	Closed       bool // Close has begun
	Crashed      bool // it cannot reach the servers any more
	EngineClosed bool
	locking      int             // running calls of Lock and TryLock
	Stats        Stats           // of renewals
	unreleased   map[string]bool // owners whose latest release got no answer
	returnedAt   time.Time       // when the latest call of a Multi failed
}

func newProcess(w *World, id int, plan ProcessPlan) (*Process, error) {
	p := &Process{
		World: w, ID: id, Plan: plan, CloseEngine: func() {}, unreleased: map[string]bool{},
		Pauser: simproc.NewPauser(simrand.Mix(w.Plan.Seed, 9, uint64(id))),
	}
	store, end, err := w.Backend.Open(p)
	if err != nil {
		return nil, err
	}
	p.closeStore = end
	engine, err := p.engine()
	if err != nil {
		return nil, err
	}
	simrand.WithPhase(simrand.New(w.Plan.Seed, 2, uint64(id)).Float64(), func() {
		for _, options := range append(plan.Choices, plan.Renewal) {
			p.Plan.Renewal = options
			if p.Client, err = p.client(driver.Wrap(store, recorder{p}.around), engine); err == nil {
				return
			}
			w.Counts.Operations["options refused"]++
		}
	})
	if err != nil {
		return nil, fmt.Errorf("process %d: %w", id, err)
	}
	if p.Plan.Renewal != plan.Renewal {
		w.Counts.Operations["extreme options"]++
	}
	return p, nil
}

func (p *Process) client(store driver.Store, engine schedule.Scheduler) (*lock.Client, error) {
	tuning := p.Plan.Tuning
	tuning.Lost = p.lost
	all := &lock.Options{
		Terms:     lock.Terms{TTL: p.Plan.TTL, MaxHold: p.Plan.MaxHold, Fixed: p.Plan.Fixed, MinHold: p.Plan.MinHold},
		Scheduler: engine,
		Renewal:   seam.Tuned(p.Plan.Renewal, tuning),
		Hooks:     &lock.Hooks{BatchDone: p.batchDone},
		Logger:    slog.New(slog.NewTextHandler(io.Discard, nil)), // formats the values of attributes
	}
	if p.World.Plan.Exact {
		all.Backoff = p.backoff
	}
	return lock.New(store, all)
}

// engine returns the timer engine for the client, or nil if the client creates its own.
func (p *Process) engine() (schedule.Scheduler, error) {
	switch {
	case p.Plan.Own:
		return nil, nil
	case p.Plan.Heap:
		s, err := heapqueue.NewScheduler(nil)
		if err != nil {
			return nil, err
		}
		p.Engine, p.CloseEngine = s, func() { s.Close() }
		return p.Pauser.Engine(s), nil
	}
	s, err := wheel.New(&wheel.Options{Tick: p.Plan.Tick})
	if err != nil {
		return nil, err
	}
	p.Engine, p.CloseEngine = s, func() { s.Close() }
	return p.Pauser.TickingEngine(s, p.Plan.Tick), nil
}

func (p *Process) backoff(n int) time.Duration {
	return simrand.New(p.World.Plan.Seed, 3, uint64(p.ID), uint64(n)).Between(p.Plan.TTL/200, p.Plan.TTL/20)
}

// endsAll returns the error with which held leases end because the client or its engine is
// closed. Otherwise it returns nil. The caller holds World.Mu.
func (p *Process) endsAll() error {
	switch {
	case p.Closed:
		return lock.ErrClosed
	case p.EngineClosed:
		return schedule.ErrClosed
	}
	return nil
}
