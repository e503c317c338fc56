// The clocks of the clients, which the nemesis steps and suspends.

package sim

import (
	"time"

	"github.com/leasewheel/leasewheel/internal/seam"
)

// clientClocks records what the nemesis did to the wall clock of the clients. All clients of a
// program share it, so schedules that step it must not run at the same time. World.Mu guards
// the fields.
type clientClocks struct {
	moved       time.Duration // the sum of all steps
	movedAt     time.Time     // the latest step
	backAt      time.Time     // the latest step back
	suspendedAt time.Time     // the latest suspension of the host
	hidingAt    time.Time     // the later of these two
}

// StepWall steps the wall clocks of all clients. The caller holds Mu.
func (w *World) StepWall(d time.Duration) {
	w.clocks.moved += d
	w.clocks.movedAt = time.Now()
	seam.StepWall(d)
}

// StepWallBack sets the wall clocks of all clients back. The caller holds Mu.
func (w *World) StepWallBack(d time.Duration) {
	w.StepWall(-d)
	w.clocks.hidingAt, w.clocks.backAt = time.Now(), time.Now()
}

// Suspend suspends the host of the clients. Their monotonic clocks stop, and their wall clocks
// advance, as those of the servers must. The caller holds Mu.
func (w *World) Suspend(d time.Duration) {
	w.StepWall(d)
	w.clocks.hidingAt, w.clocks.suspendedAt = time.Now(), time.Now()
}

// hid reports whether a step back may have hidden a suspension since an instant. A4 excludes
// that.
func (c *clientClocks) hid(since time.Time) bool {
	return !c.backAt.IsZero() && !c.backAt.Before(since) && !c.suspendedAt.Before(since)
}

// CanHide reports whether the clocks may be set back or the host suspended now. All watchdogs
// must have compared their clocks since the last such event, because one event can hide the
// other, which A4 excludes. The caller holds Mu.
func (w *World) CanHide() bool {
	for _, p := range w.Procs {
		since := w.clocks.hidingAt
		if end, paused := p.Pauser.PausedSince(since); paused {
			since = end
		}
		if time.Since(since) < time.Second+4*p.Plan.Tick {
			return false
		}
	}
	return true
}

// restoreClocks undoes all steps.
func (w *World) restoreClocks() {
	w.Mu.Lock()
	defer w.Mu.Unlock()
	if w.clocks.moved != 0 {
		w.StepWall(-w.clocks.moved)
	}
}
