package sim

import (
	"fmt"
	"io"
	"log/slog"
	"time"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/verify/chance"
	"github.com/leasewheel/leasewheel/verify/part"
	"github.com/leasewheel/leasewheel/verify/still"
	"github.com/leasewheel/leasewheel/wheel"
)

// process is one client of the store, with its engine and its users.
type process struct {
	world  *world
	id     int
	plan   processPlan
	gate   *still.Gate
	client *lock.Client
	store  *driver
	end    func() // closes the engine, if the client does not

	// The world's mu guards what follows.
	cutTo, cutFrom time.Time // until then no request gets to the server, no answer from it
	closed         bool      // Close has begun
	crashed        bool
	locking        int // calls of Lock and TryLock under way
	tally          part.Tally
}

func newProcess(w *world, id int, plan processPlan) (*process, error) {
	p := &process{world: w, id: id, plan: plan, end: func() {}, gate: still.NewGate(chance.Mix(w.plan.seed, 9, uint64(id)))}
	p.store = newDriver(p)
	engine, err := p.engine()
	if err != nil {
		return nil, err
	}
	options := plan.renewal
	options.Hooks = &renewal.Hooks{BatchDone: p.batchDone, Lost: p.lost}
	p.client, err = lock.New(p.store.offered(), &lock.Options{
		Terms:     lock.Terms{TTL: plan.ttl, MaxHold: plan.maxHold, Fixed: plan.fixed},
		Scheduler: engine,
		Renewal:   options,
		Backoff:   p.backoff,
		Logger:    slog.New(slog.NewTextHandler(io.Discard, nil)),
	})
	if err != nil {
		return nil, fmt.Errorf("process %d: %w", id, err)
	}
	chance.Settle(p.client, chance.New(w.plan.seed, 2, uint64(id)).Float64())
	return p, nil
}

// engine returns the timer engine; nil is one of the client's own.
func (p *process) engine() (schedule.Scheduler, error) {
	if p.plan.own {
		return nil, nil
	}
	if p.plan.heap {
		s, err := heapqueue.NewScheduler(nil)
		if err != nil {
			return nil, err
		}
		p.end = func() { s.Close() }
		return p.gate.Engine(s), nil
	}
	s, err := wheel.New(&wheel.Options{Tick: p.plan.tick})
	if err != nil {
		return nil, err
	}
	p.end = func() { s.Close() }
	return p.gate.TickingEngine(s, p.plan.tick), nil
}

func (p *process) backoff(n int) time.Duration {
	return chance.New(p.world.plan.seed, 3, uint64(p.id), uint64(n)).Between(p.plan.ttl/200, p.plan.ttl/20)
}
