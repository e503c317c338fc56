package sim

import "slices"

// tidy is asked of schedules in which nothing that was released comes back: no
// message is doubled, no data lost, no clock stepped.
func (p plan) tidy() bool {
	return slices.Contains([]class{calm, single, external, pauses, drift, endings}, p.class)
}

// tidies checks that the server has no lock for nobody: none of an acquisition that
// was given up, none that was unlocked, unless its client is still at work on it.
func (w *world) tidies() {
	if !w.plan.tidy() {
		return
	}
	for _, p := range w.procs {
		if p.client.Stats().Cleaning > 0 {
			continue
		}
		w.mu.Lock()
		for n := range w.plan.keys {
			w.tidiesKey(p, keyName(n))
		}
		w.mu.Unlock()
	}
}

func (w *world) tidiesKey(p *process, key string) {
	w.check("tidy")
	held, ok := w.server.alive(key)
	t := w.tenures[tenureID{key, held.token}]
	switch {
	case !ok || t == nil || t.process != p || held.owner != t.owner || p.crashed || p.closed:
	case p.locking > 0: // it may be at it
	case p.store.couldNotRelease(t.owner) && (w.plan.class != single || held.until-w.server.clock.now() < int64(p.plan.ttl/20)):
		// It may have given up, as it does after a TTL.
	case w.holds(t.owner): // by an older token, and will be told so
	case t.held == nil || t.gone:
		// Stats were read before: since then it may have begun to release something.
		if p.client.Stats().Cleaning == 0 {
			w.violated("tidy", "L4: the server keeps %s for p%d, which has given it up", key, p.id)
		}
	}
}

// holds tells whether some handle of an owner was not unlocked. The caller holds mu.
func (w *world) holds(owner string) bool {
	for _, t := range w.tenures {
		if t.owner == owner && t.held != nil && !t.gone {
			return true
		}
	}
	return false
}

// couldNotRelease tells whether a release of an owner got no answer: the client
// repeats it for one TTL.
func (d *driver) couldNotRelease(owner string) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.unreleased[owner]
}
