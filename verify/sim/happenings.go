package sim

import (
	"context"
	"time"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/verify/chance"
)

// forgets tells whether the server may fall back to an older state.
func (p plan) forgets() bool { return p.class == dataLoss || p.class == everything }

// happenings are what the seed has happen to clients, servers and clocks.
func (w *world) happenings() {
	d := chance.New(w.plan.seed, 8)
	for !w.over() && len(w.plan.events) > 0 {
		if w.plan.forgets() {
			w.mu.Lock()
			w.server.remember()
			w.mu.Unlock()
		}
		time.Sleep(d.UpTo(w.plan.every))
		if w.over() {
			return
		}
		w.happens(chance.Pick(d, w.plan.events...), d)
	}
}

func (w *world) happens(e event, d chance.Dice) {
	p := chance.Pick(d, w.procs...)
	span := d.UpTo(w.plan.ttl * 3 / 2)
	w.mu.Lock()
	defer w.mu.Unlock()
	if (e == suspend || e == wallBack) && !w.compared() {
		return
	}
	w.note("%s of p%d for %v", e, p.id, span)
	w.counts.Faults[string(e)]++
	switch e {
	case partition, oneWay:
		w.cut(e, p, span)
	case pause:
		p.gate.Stop(span)
	case closeClient:
		w.traveling.Go(func() { p.close(span) })
	case crash:
		p.crashes()
	case deleteKey, steal, force:
		w.interfere(e, keyName(d.IntN(w.plan.keys)))
	case wallAhead:
		w.moveWall(span)
	case wallBack:
		w.moveWall(-span)
		w.hidingAt, w.backAt = time.Now(), time.Now()
	case suspend: // the server's time passes, that of the clients stands still
		w.moveWall(span)
		w.server.clock.step += span
		w.hidingAt, w.suspendedAt = time.Now(), time.Now()
	default:
		w.serverFails(e, span, d)
	}
}

// compared tells whether all watchdogs have compared their clocks since the last
// suspension, or the last time that the wall clock was set back: of these two one can
// hide the other. A4 assumes that it does not happen.
func (w *world) compared() bool {
	for _, p := range w.procs {
		since := w.hidingAt
		if end, still := p.gate.StoodStill(since); still {
			since = end
		}
		if time.Since(since) < time.Second+4*p.plan.tick {
			return false
		}
	}
	return true
}

func (w *world) cut(e event, p *process, span time.Duration) {
	end := time.Now().Add(span)
	p.cutFrom = end
	if e == partition {
		p.cutTo = end
	}
}

// interfere: somebody does by hand what no client does. The caller holds mu.
func (w *world) interfere(e event, key string) {
	held, ok := w.server.alive(key)
	if !ok {
		return
	}
	w.voidAll(key)
	switch e {
	case deleteKey:
		delete(w.server.data.locks, key)
	case steal:
		w.server.data.locks[key] = lease{"someone else", held.token, held.until}
	case force:
		w.server.handOver(key)
	}
}

// serverFails is for what happens to the server. The caller holds mu.
func (w *world) serverFails(e event, span time.Duration, d chance.Dice) {
	s := w.server
	switch e {
	case down:
		w.downUntil = time.Now().Add(span)
	case wipe:
		s.data = emptyData()
		w.voidAll("")
		w.downUntil = time.Now().Add(span / 4)
	case failOver:
		s.data = chance.Pick(d, s.copies...).clone()
		w.voidAll("")
	case serverAhead:
		s.clock.step += span
		w.voidAll("")
	case serverBack:
		s.clock.step -= span
	}
}

// crashes: nothing is heard of a process any more.
func (p *process) crashes() {
	p.crashed = true
	p.cutTo = time.Now().Add(1000 * time.Hour)
	p.cutFrom = p.cutTo
}

// close closes a client, once, within that time, and checks what comes of it.
func (p *process) close(within time.Duration) {
	w := p.world
	w.mu.Lock()
	if p.closed {
		w.mu.Unlock()
		return
	}
	p.closed = true
	var mine []*tenure
	for _, t := range w.tenures {
		if t.process == p && t.held != nil {
			mine = append(mine, t)
		}
	}
	w.mu.Unlock()
	p.gate.Pass(0)
	lost := make(map[*tenure]bool) // those are left to their Unlock
	for _, t := range mine {
		lost[t] = !t.held.Valid()
	}
	begun := time.Now()
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	err := p.client.Close(ctx)
	took := time.Since(begun)
	_, still := p.gate.StoodStill(begun)
	if took > within && !still {
		w.fail("close", "L5: it took p%d %v to close, it had %v", p.id, took, within)
	}
	for _, t := range mine {
		if t.held.Valid() || !closed(t.done) || t.held.Err() == nil {
			w.fail("close", "p%d is closed, and its handle of %s is valid", p.id, t.key)
		}
	}
	if _, err := p.client.Mutex("key 0").TryLock(context.Background()); err == nil {
		w.fail("close", "p%d is closed, and locks", p.id)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.check("close")
	w.note("p%d closed: %v", p.id, err != nil)
	for _, t := range mine {
		held, ok := w.server.alive(t.key)
		if err == nil && w.plan.tidy() && !lost[t] && ok && held.owner == t.owner && held.token == t.token {
			w.violated("close", "p%d is closed, and the server has %s for it", p.id, t.key)
		}
	}
	if err != nil && w.plan.class == calm {
		w.violated("close", "nothing failed, but p%d could not close: %v", p.id, err)
	}
}

var _ lock.Store = (*driver)(nil)
