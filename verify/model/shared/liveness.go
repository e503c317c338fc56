// The check that all waiters are served after all faults have stopped.

package shared

import "fmt"

// checkLiveness stops all faults, except that no signals arrive. Crashed clients stay
// dead, holders release at once, and waiters poll. Every waiter must be served.
func (w *simulation) checkLiveness() error {
	const most = 100 // ms between two polls
	limit := w.reference.now
	for _, a := range w.all {
		switch a.phase {
		case held:
			w.reference.release(a.owner, 0, 0)
		case ended:
			for _, m := range a.inFlight {
				if m.kind == 'x' {
					w.reference.release(a.owner, m.tombstone, 0)
				}
			}
		}
		limit += a.ttl + most
	}
	for {
		left := ""
		for _, a := range w.all {
			if a.phase != waiting {
				continue
			}
			got := w.reference.acquire(a.request)
			switch got.code {
			case 1:
				w.stats.served++
				w.reference.release(a.owner, 0, 0)
				a.phase = ended
			case -1:
				a.phase = ended
			default:
				left = a.owner
			}
		}
		if left == "" {
			return w.checkNoLeases()
		}
		if w.reference.now > limit+1000 {
			return fmt.Errorf("%s is never served: %+v", left, w.reference)
		}
		w.reference.now += 10
	}
}

// checkNoLeases checks that no lease outlives its acquisition by more than a TTL.
func (w *simulation) checkNoLeases() error {
	w.reference.now += 1000
	w.reference.expire()
	if len(w.reference.leases) > 0 {
		return fmt.Errorf("leases left after the end: %+v", w.reference.leases)
	}
	return nil
}
