// The faults of this backend: partitions, outages, lost data, clocks and blocked engines.

package core

import (
	"slices"
	"time"

	"github.com/leasewheel/leasewheel/internal/simrand"
	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/verify/sim"
)

func (b *backend) Inject(e sim.Event, d simrand.Rand) {
	p := simrand.Pick(d, b.procs...)
	span := d.UpTo(b.plan.TTL * 3 / 2)
	b.Mu.Lock()
	defer b.Mu.Unlock()
	if (e == suspend || e == wallBack) && !b.CanHide() {
		return
	}
	b.Note("%s of p%d for %v", e, p.ID, span)
	b.Counts.Faults[string(e)]++
	if b.CommonFault(e, p.Process, span) || b.interfere(e, d) || b.moveClocks(e, span) {
		return
	}
	s := b.server
	switch e {
	case partition:
		p.cutFrom = time.Now().Add(span)
		p.cutTo = p.cutFrom
	case oneWay:
		p.cutFrom = time.Now().Add(span)
	case crash: // the process continues, without a connection
		p.Crashed = true
		p.cutTo = time.Now().Add(1000 * time.Hour)
		p.cutFrom = p.cutTo
	case closeEngine:
		p.EngineClosed = true
		b.Pending.Go(p.StopEngine)
	case blockEngine:
		if p.Engine != nil {
			b.Pending.Go(func() { _, _ = p.Engine.Schedule(0, blocking(3*span)) }) // an error means that the engine was closed
		}
	case down:
		b.downUntil = time.Now().Add(span)
	case wipe:
		s.data = emptyData()
		b.VoidAll("")
		b.downUntil = time.Now().Add(span / 4)
		b.suspect(span / 4)
	case failOver:
		s.data = simrand.Pick(d, s.copies...).clone()
		b.VoidAll("")
		b.suspect(0)
	}
}

// suspect makes all clients suspect that leases are lost.
func (b *backend) suspect(after time.Duration) {
	for _, p := range b.procs {
		b.After(after, p.store.suspect)
	}
}

// interfere changes a held lock as no client does.
func (b *backend) interfere(e sim.Event, d simrand.Rand) bool {
	if !slices.Contains(eventsOf[external], e) {
		return false
	}
	key := sim.KeyName(d.IntN(len(b.plan.Keys)))
	held, ok := b.server.alive(key)
	if !ok {
		return true
	}
	b.VoidAll(key)
	switch e {
	case deleteKey:
		delete(b.server.data.locks, key)
	case steal:
		b.server.data.locks[key] = lease{"someone else", held.token, held.until}
	default:
		b.server.handOver(key)
	}
	return true
}

func (b *backend) moveClocks(e sim.Event, span time.Duration) bool {
	switch e {
	case wallAhead:
		b.StepWall(span)
	case wallBack:
		b.StepWallBack(span)
	case suspend: // the time of the server passes, but not that of the clients
		b.Suspend(span)
		b.server.clock.step += span
	case serverAhead:
		b.server.clock.step += span
		b.VoidAll("")
	case serverBack:
		b.server.clock.step -= span
	default:
		return false
	}
	return true
}

// blocking is a task of the user that blocks.
type blocking time.Duration

// Run implements schedule.Task.
func (b blocking) Run(schedule.Timer) { time.Sleep(time.Duration(b)) }
