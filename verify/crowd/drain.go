package crowd

import "fmt"

// drain ends all faults but one: there are no signals. Those that have died stay
// dead, holders release at once, and those that wait poll. All must be served.
func (w *world) drain() error {
	const most = 100 // ms from one poll to the next, at most
	limit := w.rules.now
	for _, a := range w.all {
		switch a.phase {
		case held:
			w.rules.release(a.owner, 0)
		case ended:
			for _, m := range a.sent {
				if m.kind == 'x' {
					w.rules.release(a.owner, m.tomb)
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
			got := w.rules.acquire(a.ask)
			switch got.code {
			case 1:
				w.stats.drained++
				w.rules.release(a.owner, 0)
				a.phase = ended
			case -1:
				a.phase = ended
			default:
				left = a.owner
			}
		}
		if left == "" {
			return w.clean()
		}
		if w.rules.now > limit+1000 {
			return fmt.Errorf("%s waits for ever: %+v", left, w.rules)
		}
		w.rules.now += 10
	}
}

// clean checks that nothing is held for somebody who has ended, for longer than a
// lease after that.
func (w *world) clean() error {
	w.rules.now += 1000
	w.rules.begin()
	if len(w.rules.leases) > 0 {
		return fmt.Errorf("a lease is left: %+v", w.rules.leases)
	}
	return nil
}
