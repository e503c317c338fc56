package sim

import (
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"sync"
	"time"
	"unsafe"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/wheel"
)

// process is one client of the store, with its engine and its users.
type process struct {
	world  *world
	id     int
	plan   processPlan
	gate   gate
	client *lock.Client
	store  *driver
	end    func() // closes the engine, if the client does not

	// The world's mu guards what follows.
	cutTo, cutFrom time.Time // until then no request gets to the server, no answer from it
	closed         bool      // Close has begun
	crashed        bool
	locking        int // calls of Lock and TryLock under way
	tally          tally
}

// tally is what the hooks of a watchdog told.
type tally struct {
	calls, answered, leases int // of Renew
	done, size, renewed     int // by BatchDone
	lost                    map[renewal.Reason]int
}

func newProcess(w *world, id int, plan processPlan) (*process, error) {
	p := &process{world: w, id: id, plan: plan, end: func() {}, gate: gate{seed: mix(w.plan.seed, 9, uint64(id))}}
	p.tally.lost = make(map[renewal.Reason]int)
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
	p.settleChance()
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
		return gated{s, &p.gate}, nil
	}
	s, err := wheel.New(&wheel.Options{Tick: p.plan.tick})
	if err != nil {
		return nil, err
	}
	p.end = func() { s.Close() }
	return gatedTicking{gated{s, &p.gate}, p.plan.tick}, nil
}

// settleChance replaces what the watchdog draws at its making: when its first
// renewal stands. The seed decides that too, or no failure could be played again.
// It is the one thing that the simulation does to the code it runs.
func (p *process) settleChance() {
	core := reflect.ValueOf(p.client).Elem().FieldByName("core").Elem()
	spread := core.FieldByName("dog").Elem().FieldByName("spread")
	*(*float64)(unsafe.Pointer(spread.UnsafeAddr())) = newDice(p.world.plan.seed, 2, uint64(p.id)).Float64() / 2
}

func (p *process) backoff(n int) time.Duration {
	return newDice(p.world.plan.seed, 3, uint64(p.id), uint64(n)).between(p.plan.ttl/200, p.plan.ttl/20)
}

// gate holds up all that a process does while it stands still.
type gate struct {
	seed uint64

	mu     sync.Mutex // guards all below
	until  time.Time
	spells []spell
}

type spell struct{ from, to time.Time }

// pass returns when the process runs, and who had to wait has its turn then: the
// number names the caller, so that they come in an order that the seed decides.
func (g *gate) pass(caller uint64) {
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
func (g *gate) turn() uint64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	return mix(g.seed, uint64(len(g.spells)))
}

// stop makes the process stand still, unless it does.
func (g *gate) stop(d time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	now := time.Now()
	if now.Before(g.until) {
		return
	}
	g.until = now.Add(d)
	g.spells = append(g.spells, spell{now, g.until})
}

// stoodStill returns the end of the last pause that reached beyond an instant.
func (g *gate) stoodStill(since time.Time) (end time.Time, did bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.spells {
		if s.to.After(since) {
			end, did = s.to, true
		}
	}
	return end, did
}

// gated is an engine of a process that can stand still.
type gated struct {
	schedule.Scheduler
	gate *gate
}

func (g gated) Schedule(d time.Duration, t schedule.Task) (schedule.Timer, error) {
	return g.Scheduler.Schedule(d, gatedTask{t, g.gate})
}

type gatedTask struct {
	task schedule.Task
	gate *gate
}

func (t gatedTask) Run(timer schedule.Timer) {
	t.gate.pass(t.gate.turn())
	t.task.Run(timer)
}

type gatedTicking struct {
	gated
	tick time.Duration
}

func (g gatedTicking) Tick() time.Duration { return g.tick }
