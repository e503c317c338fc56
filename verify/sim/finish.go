package sim

import (
	"context"
	"time"
)

// finish heals what can be healed, sees that the locks can be had again, closes all
// clients and sees that nothing is left, neither of them nor on the server.
func (w *world) finish() {
	w.heal()
	if w.plan.class != endings {
		w.serves()
	}
	for _, p := range w.procs {
		p.close(max(10*time.Second, 2*w.plan.ttl))
	}
	for _, p := range w.procs {
		p.gate.Pass(0)
		p.end()
	}
	w.traveling.Wait()
	// What was executed last may have been an acquire for nobody.
	most := w.longest()
	time.Sleep(most + most/50 + w.behind())
	w.mu.Lock()
	defer w.mu.Unlock()
	w.check("left")
	if locks, places := w.server.left(); locks+places > 0 {
		w.violated("left", "L2, L4: a TTL after all have gone, the server has %d locks, %d places", locks, places)
	}
	for _, p := range w.procs {
		w.reckons(p)
	}
}

func (w *world) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.plan.net = odds{}
	w.downUntil = time.Time{}
	for _, p := range w.procs {
		if !p.crashed {
			p.cutTo, p.cutFrom = time.Time{}, time.Time{}
		}
	}
}

func (w *world) longest() time.Duration {
	var most time.Duration
	for _, p := range w.procs {
		most = max(most, p.plan.ttl)
	}
	return most
}

// behind is how much longer leases last because the server's clock was set back.
func (w *world) behind() time.Duration {
	if w.plan.class != clocks {
		return 0
	}
	return w.plan.ttl * 3 / 2 * 64
}

// serves: once all is well again, a lock that nobody holds can be had within a TTL
// and the time that late messages take.
func (w *world) serves() {
	if w.plan.class == clocks {
		return // a lease made before the server's clock was set back lasts longer
	}
	p := w.procs[0]
	p.gate.Pass(0)
	w.mu.Lock()
	gone := p.closed
	w.mu.Unlock()
	if gone {
		return
	}
	most := w.longest()
	ctx, cancel := context.WithTimeout(context.Background(), 2*w.plan.ttl+most+most/10+w.plan.place+10*time.Second)
	defer cancel()
	for n := range w.plan.keys {
		key := keyName(n)
		held, err := p.client.Mutex(key).Lock(ctx)
		w.mu.Lock()
		w.check("served")
		if err != nil && !w.abandoned(key) {
			w.violated("served", "L2: %s cannot be had again: %v", key, err)
		}
		w.mu.Unlock()
		if err != nil {
			continue
		}
		if t := w.begins(p, held, w.plan.queue); t != nil {
			_ = held.Unlock(context.Background()) // whatever it says, Close sees to it
		}
	}
}

// abandoned tells whether a lock is held by somebody. The caller holds mu.
func (w *world) abandoned(key string) bool {
	for _, t := range w.tenures {
		if t.key == key && t.held != nil && t.held.Valid() {
			return true
		}
	}
	return false
}

// reckons adds up the statistics of a client that has been closed. The caller holds
// mu.
func (w *world) reckons(p *process) {
	w.check("stats")
	if wrong := p.tally.Check(p.client.Stats()); wrong != "" {
		w.violated("stats", "p%d: %s", p.id, wrong)
	}
}
