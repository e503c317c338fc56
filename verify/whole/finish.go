package whole

import (
	"context"
	"strconv"
	"strings"
	"time"
)

func milliseconds(d time.Duration) string { return strconv.FormatInt(max(d.Milliseconds(), 1), 10) }

// memory is how long the last token of a lock is remembered, by docs/SAFETY.md.
const memory = 10 * time.Minute

// finish heals what can be healed, sees that the locks can be had again, closes all
// clients and sees that nothing is left, neither of them nor on the server.
func (w *world) finish() {
	w.heal()
	w.serves()
	for _, p := range w.procs {
		p.close(max(10*time.Second, 2*w.plan.ttl))
	}
	for _, p := range w.procs {
		p.gate.Pass(0)
		p.end()
	}
	w.mu.Lock()
	for _, s := range w.servers {
		w.kill(s, false)
	}
	w.mu.Unlock()
	w.traveling.Wait()
	w.leaves()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, p := range w.procs {
		w.reckons(p)
	}
}

func (w *world) heal() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.plan.net = odds{}
	for _, s := range w.servers {
		s.until = time.Time{}
		if !time.Now().Before(s.away) {
			s.down = time.Time{}
		}
	}
	for _, p := range w.procs {
		if !p.crashed {
			for _, k := range p.links {
				k.cutTo, k.cutFrom = time.Time{}, time.Time{}
			}
		}
	}
}

// leaves: what was executed last may have been an acquire for nobody. A TTL later no
// lock is held, and once the tokens are forgotten nothing is there at all.
func (w *world) leaves() {
	longest := 4 * 2 * w.plan.ttl // of what is known of a lease, and of a queue
	time.Sleep(longest + longest/50)
	w.mu.Lock()
	w.check("left")
	all, endless := w.left()
	for _, key := range all {
		if !strings.HasSuffix(key, ":t") && !strings.Contains(key, ":x:") && w.plan.class != clocks {
			w.violated("left", "L2, L4: a TTL after all have gone, the server has %q", key)
		}
	}
	if len(endless) > 0 {
		w.violated("left", "L2: keys without an end: %q", endless)
	}
	w.mu.Unlock()
	time.Sleep(memory + memory/50 + time.Duration(w.counts.Faults[string(serverBack)])*w.plan.ttl*3/2)
	w.mu.Lock()
	defer w.mu.Unlock()
	if all, _ := w.left(); len(all) > 0 {
		w.violated("left", "L4: when all must be forgotten, the server has %q", all)
	}
}

// left returns the keys that the servers have, and those without an end. The caller
// holds mu.
func (w *world) left() (all, endless []string) {
	for _, s := range w.servers {
		keys, eternal := s.left()
		all, endless = append(all, keys...), append(endless, eternal...)
	}
	return all, endless
}

// serves: once all is well again, a lock that nobody holds can be had within a TTL
// and the time that late messages take.
func (w *world) serves() {
	for _, p := range w.procs {
		p.gate.Pass(0)
		w.mu.Lock()
		gone := p.closed || p.crashed
		w.mu.Unlock()
		if !gone {
			w.servesOne(&user{process: p})
			return
		}
	}
}

func (w *world) servesOne(u *user) {
	longest := 2 * w.plan.ttl // of a lease
	bound := longest + longest/10 + 2*w.plan.ttl + place(longest) + 10*time.Second
	bound += time.Duration(w.counts.Faults[string(serverBack)]) * w.plan.ttl * 3 / 2
	ctx, cancel := context.WithTimeout(by(context.Background(), u), bound)
	defer cancel()
	for _, key := range w.plan.names() {
		l := u.locker(key)
		held, err := l.Lock(ctx)
		for err != nil && ctx.Err() == nil { // go-redis may not have noticed yet that all is well
			time.Sleep(w.plan.ttl / 10)
			held, err = l.Lock(ctx)
		}
		w.mu.Lock()
		w.check("served")
		if err != nil {
			w.violated("served", "L2: %s cannot be had again: %v", key, err)
		}
		w.mu.Unlock()
		if err != nil {
			continue
		}
		if t := w.begins(u, held); t != nil {
			_ = held.Unlock(context.Background()) // whatever it says, Close sees to it
		}
	}
}

// reckons adds up the statistics of a client that has been closed. The caller holds
// mu.
func (w *world) reckons(p *process) {
	w.check("stats")
	if wrong := p.tally.Check(p.client.Stats()); wrong != "" {
		w.violated("stats", "p%d: %s", p.id, wrong)
	}
}
