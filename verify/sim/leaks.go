// The check that every lock on the servers has a holder.

package sim

import "time"

// answerTime is how long package redisstore waits for the answer to a request.
const answerTime = 3 * time.Second

// CheckLeaks checks that every lock on the servers has a holder: none belongs to an abandoned
// acquisition, and none was unlocked, unless its client is still releasing it.
func (w *World) CheckLeaks() {
	if !w.Plan.Tidy {
		return
	}
	for _, p := range w.Procs {
		if p.Client.Stats().Releasing > 0 {
			continue
		}
		w.Mu.Lock()
		for _, key := range w.Plan.Names() {
			for _, l := range w.Backend.Leases(key) {
				w.Check("leak")
				w.checkLeak(p, key, l)
			}
		}
		w.Mu.Unlock()
	}
}

func (w *World) checkLeak(p *Process, key string, l Lease) {
	g := l.Grant
	switch {
	case g == nil || g.Process != p || p.Crashed || p.Closed:
	case p.locking > 0: // the acquisition may be running
	case p.unreleased[g.Owner] && (!w.Plan.SureRelease || l.Left < p.Plan.TTL/20): // a client gives up after a TTL
	case w.Holds(g.Owner): // with an older token; its holder will learn of the loss
	case p.returning(): // a Multi releases its locks in the background after its context ended
	case g.Handle() == nil || g.gone:
		// Stats were read before: the client may have begun to release something since.
		if p.Client.Stats().Releasing == 0 {
			w.Violated("leak", "L4: the server keeps %s for p%d, which has abandoned it", key, p.ID)
		}
	}
}

// returning reports whether the process may be releasing locks that Stats does not count. The
// caller holds World.Mu.
func (p *Process) returning() bool {
	since := p.returnedAt
	if end, paused := p.Pauser.PausedSince(since); paused {
		since = end
	}
	return !p.returnedAt.IsZero() && time.Since(since) <= min(answerTime, p.Plan.TTL)
}
