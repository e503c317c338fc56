// The end of a schedule, and its final checks.

package sim

import (
	"context"
	"time"
)

// Finish ends all faults and checks that the locks can be acquired again. It then closes all
// clients and checks that they and the servers keep nothing. It returns the result of the
// schedule.
func (w *World) Finish() Result {
	w.Mu.Lock()
	w.Plan.Slow = false
	w.Backend.Heal()
	w.Mu.Unlock()
	if w.Plan.Serves {
		w.checkServes()
	}
	for _, p := range w.Procs {
		p.close(max(10*time.Second, 2*w.Plan.TTL))
	}
	for _, p := range w.Procs {
		p.Pauser.Await(0)
		p.CloseEngine()
		p.closeStore()
	}
	w.Mu.Lock()
	w.Backend.Disconnect()
	w.Mu.Unlock()
	w.Pending.Wait()
	w.Backend.CheckLeft()
	w.Mu.Lock()
	for _, p := range w.Procs {
		w.Check("stats")
		if wrong := p.Stats.Check(p.Client.Stats()); wrong != "" {
			w.Violated("stats", "p%d: %s", p.ID, wrong)
		}
	}
	w.Mu.Unlock()
	w.restoreClocks()
	w.Counts.Schedules, w.Counts.Simulated, w.Counts.Violations = 1, time.Since(w.Start), len(w.violations)
	return Result{w.Counts, w.violations, w.digest}
}

// checkServes checks that every free lock can be acquired again.
func (w *World) checkServes() {
	for _, p := range w.Procs {
		p.Pauser.Await(0)
		w.Mu.Lock()
		gone := p.Closed || p.Crashed
		w.Mu.Unlock()
		if !gone {
			w.servesAll(&User{Process: p})
			return
		}
	}
}

func (w *World) servesAll(u *User) {
	ctx, cancel := context.WithTimeout(by(context.Background(), u), w.Backend.ServeWithin())
	defer cancel()
	for _, key := range w.Plan.Names() {
		l := u.locker(key)
		held, err := l.Lock(ctx)
		for err != nil && ctx.Err() == nil { // go-redis may not have noticed yet that the faults are over
			time.Sleep(w.Plan.TTL / 10)
			held, err = l.Lock(ctx)
		}
		w.Mu.Lock()
		w.Check("served")
		if err != nil && !w.abandoned(key) {
			w.Violated("served", "L2: %s cannot be acquired again: %v", key, err)
		}
		w.Mu.Unlock()
		if err != nil {
			continue
		}
		if g := w.begin(u, held, w.Plan.Queue); g != nil {
			_ = held.Unlock(context.Background()) // Close releases the lock if Unlock does not
		}
	}
}

// abandoned reports whether a user left a lock to its MaxHold. The caller holds Mu.
func (w *World) abandoned(key string) bool {
	for _, g := range w.Grants {
		if g.Key == key && g.Process.Plan.MaxHold > 0 && g.Handle() != nil && g.Handle().Valid() {
			return true
		}
	}
	return false
}
