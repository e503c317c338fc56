package full

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/leasewheel/leasewheel/internal/seam"
	"github.com/leasewheel/leasewheel/verify/sim"
)

// described is a schedule that a test describes instead of a seed, for events that few seeds
// produce. Nothing else happens in it. The TTL and the place in a queue are a second, and a
// waiter polls every third of a second. Messages take a millisecond each way. All checks apply,
// as in other schedules.
type described struct {
	*backend
	others *sync.WaitGroup // goroutines beside the description
}

const describedTTL = time.Second

var ordinary = sim.Fate{Out: time.Millisecond, Back: time.Millisecond}

// tell plays a described schedule, and returns the broken promises.
func tell(t *testing.T, one description) []string {
	t.Helper()
	p := plan{class: pauses, rates: []float64{1}}
	p.TTL, p.Keys, p.Shared = describedTTL, sim.KeyNames(3), []string{sim.PermitName}
	for range one.processes {
		p.procs = append(p.procs, processPlan{ProcessPlan: sim.ProcessPlan{
			Heap: true, TTL: describedTTL, Tick: time.Millisecond,
			Tuning: seam.Tuning{Align: describedTTL}, // the grid is half a period: leases that are due within it form one batch
		}})
	}
	p.expect()
	return sim.Tell(t, func(trace func(string)) sim.Result {
		b := newBackend(p, trace)
		b.overrides = &overrides{
			fate:   func(*process, message) sim.Fate { return ordinary },
			signal: func() time.Duration { return ordinary.Out },
		}
		b.Prepare()
		others := new(sync.WaitGroup)
		one.tell(described{b, others})
		others.Wait()
		return b.Finish()
	})
}

// passed returns how long the schedule has lasted. sleepUntil sleeps until it has lasted for d.
func (d described) passed() time.Duration { return time.Since(d.Start) }

func (d described) sleepUntil(since time.Duration) { time.Sleep(since - d.passed()) }

// lock makes a process acquire a lock, and starts the checks of its handle. It returns nil if
// the process does not get the lock.
func (d described) lock(ctx context.Context, process int, key string) *sim.Grant {
	u := &sim.User{Process: d.Procs[process]}
	g, err := u.LockAll(ctx, key)
	if err != nil && ctx.Err() == nil {
		d.Fail("described", "p%d cannot lock %s: %v", process, key, err)
	}
	return g
}

// unlock unlocks a lock.
func (d described) unlock(g *sim.Grant) {
	if g == nil {
		return
	}
	u := &sim.User{Process: g.Process}
	if err := u.UnlockAll(g); err != nil {
		d.Fail("described", "p%d cannot unlock %s: %v", g.Process.ID, g.Key, err)
	}
}
