// The checks at random instants: waiters, expiries and copies.

package full

import (
	"time"

	"github.com/leasewheel/leasewheel/verify/sim"
)

// timeout is how long package redisstore waits for the answer to a request.
const timeout = 3 * time.Second

func (b *backend) Probe() {
	b.observeAll()
	b.checkLiveness()
	b.Check("ends")
	if _, endless := b.left(); len(endless) > 0 {
		b.Violated("ends", "L2: keys without an expiry: %q", endless)
	}
	b.checkCopies()
}

// checkLiveness checks that no lock is free for long while a client waits for it. A quorum has
// no waiters, because its clients only try.
func (b *backend) checkLiveness() {
	bound := place(2*b.plan.TTL)/3 + time.Second
	switch {
	case b.plan.Quorum:
		return
	case b.plan.class == calm:
	case b.plan.class == external: // some requests of waiters time out
		bound += 3 * timeout
	default:
		return
	}
	for call := range b.Calls {
		since, free := b.freeSince[call.Key]
		if !free {
			continue
		}
		b.Check("waiting")
		since = sim.Later(since, call.Since)
		if time.Since(since) > bound {
			b.Violated("waiting", "L3: %s has been free for %v while a client waits", call.Key, time.Since(since))
		}
	}
}

// copyTime is the time after Unlock within which a quorum releases all copies, if no message is
// lost.
const copyTime = 4 * time.Second

// checkCopies checks that no member of a quorum keeps a copy of an unlocked lock, even if the
// lock was lost before.
func (b *backend) checkCopies() {
	if b.plan.class != lostCopies {
		return
	}
	for _, key := range b.plan.Names() {
		for _, s := range b.servers {
			for _, l := range s.holders(key) {
				g := b.Grants[b.idOf(key, l.owner, l.token)]
				if g == nil || g.Process.Closed || b.Holds(g.Owner) {
					continue
				}
				at, unlocked := g.Unlocked()
				if !unlocked || at.IsZero() {
					continue
				}
				b.Check("copies released")
				if time.Since(at) > copyTime {
					b.Violated("copies released", "L4: p%d unlocked %s %v ago, but a member keeps it for %v more",
						g.Process.ID, key, time.Since(at), l.left)
				}
			}
		}
	}
}
