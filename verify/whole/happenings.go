package whole

import (
	"context"
	"time"

	"github.com/leasewheel/leasewheel/verify/chance"
)

// event is what happens to clients, servers and clocks.
type event string

const (
	partition   event = "partition"
	oneWay      event = "one-way partition"
	killed      event = "connections killed"
	killedEar   event = "subscriptions killed"
	down        event = "server restarted"
	wipe        event = "restarted without data"
	failOver    event = "fell back to a copy"
	loading     event = "loading"
	busy        event = "busy"
	readOnly    event = "read-only"
	outOfMemory event = "out of memory"
	scriptFlush event = "scripts flushed"
	pause       event = "pause"
	deleteKey   event = "delete"
	otherType   event = "other type"
	serverAhead event = "server clock ahead"
	serverBack  event = "server clock back"
	closeClient event = "close"
	crash       event = "crash"
)

// happenings are what the seed has happen to clients, servers and clocks.
func (w *world) happenings() {
	d := chance.New(w.plan.seed, 8)
	for !w.over() && len(w.plan.events) > 0 {
		if w.plan.forgets() {
			w.mu.Lock()
			for _, s := range w.servers {
				s.remember()
			}
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
	s := chance.Pick(d, w.servers...)
	key := chance.Pick(d, w.plan.names()...)
	span := d.UpTo(w.plan.ttl * 3 / 2)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.note("%s of p%d, %s for %v", e, p.id, key, span)
	w.counts.Faults[string(e)]++
	switch e {
	case partition, oneWay:
		k := p.links[s.id]
		k.cutFrom = time.Now().Add(span)
		if e == partition {
			k.cutTo = k.cutFrom
		}
	case killed, killedEar:
		w.kill(s, e == killedEar)
	case pause:
		p.gate.Stop(span)
	case closeClient:
		w.traveling.Go(func() { p.close(span) })
	case crash:
		p.crashes()
	case deleteKey, otherType:
		w.interfere(s, e, key, span)
	default:
		w.serverFails(s, e, span, d)
	}
	w.compareAll()
}

// kill breaks the connections to a server, or those that hear signals. The caller
// holds mu.
func (w *world) kill(s *server, ears bool) {
	for _, l := range append([]*line(nil), w.lines...) {
		if l.server == s && !ears || l.server == s || len(l.channels) > 0 {
			w.close(l)
		}
	}
}

// interfere: somebody does by hand what no client does. The caller holds mu.
func (w *world) interfere(s *server, e event, key string, span time.Duration) {
	w.voidAll(key)
	s.execute([]string{"DEL", lockKey(key)})
	if e == otherType {
		s.execute([]string{"HSET", lockKey(key), "something", "else"})
		s.execute([]string{"PEXPIRE", lockKey(key), milliseconds(span)})
	}
}

// serverFails is for what happens to the server. The caller holds mu.
func (w *world) serverFails(s *server, e event, span time.Duration, d chance.Dice) {
	switch e {
	case loading, busy, readOnly, outOfMemory:
		s.refuses, s.until = e, time.Now().Add(span)
	case scriptFlush:
		s.forgetScripts()
	case down:
		w.restart(s, span)
	case wipe:
		s.redis.FlushAll()
		w.forgot(s, span)
	case failOver:
		s.restore(chance.Pick(d, s.copies...))
		w.forgot(s, span)
	case serverAhead:
		s.step += span
		w.voidAll("")
	case serverBack:
		s.step -= span
	}
}

// restart breaks all connections; new ones are refused for a time. The caller holds
// mu.
func (w *world) restart(s *server, span time.Duration) {
	w.kill(s, false)
	s.forgetScripts()
	s.restarts++
	s.down = later(s.down, time.Now().Add(span))
}

// forgot restarts a server that has lost data. The leases need not survive that; those
// of a quorum must, for there it is kept away for the longest TTL. The caller holds mu.
func (w *world) forgot(s *server, span time.Duration) {
	if !w.plan.quorum() {
		w.voidAll("")
		w.restart(s, span/4)
		return
	}
	longest := 2 * w.plan.ttl
	w.restart(s, longest+longest/50)
	s.away = s.down
}

// crashes: nothing is heard of a process any more.
func (p *process) crashes() {
	p.crashed = true
	for _, k := range p.links {
		k.cutTo = time.Now().Add(1000 * time.Hour)
		k.cutFrom = k.cutTo
	}
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
		if t.process == p && t.handle() != nil {
			mine = append(mine, t)
		}
	}
	w.mu.Unlock()
	p.gate.Pass(0)
	lost := make(map[*tenure]bool) // those are left to their Unlock
	for _, t := range mine {
		lost[t] = !t.handle().Valid()
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
		if t.handle().Valid() || !closed(t.done) || t.handle().Err() == nil {
			w.fail("close", "p%d is closed, and its handle of %s is valid", p.id, t.key)
		}
	}
	if _, err := p.client.Mutex("key 0").TryLock(context.Background()); err == nil {
		w.fail("close", "p%d is closed, and locks", p.id)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.check("close")
	w.note("p%d closed: %v", p.id, err)
	for _, t := range mine {
		if err == nil && w.plan.tidy() && !lost[t] && w.has(t) {
			w.violated("close", "p%d is closed, and the server has %s for it", p.id, t.key)
		}
	}
	if err != nil && w.plan.class == calm {
		w.violated("close", "nothing failed, but p%d could not close: %v", p.id, err)
	}
}
