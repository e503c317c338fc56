package heapqueue

const arity = 4

// order is an indexed 4-ary min-heap of slots: the children of entry i are the
// entries 4i+1 to 4i+4, and each slot knows the index of its entry, so any slot can
// be moved or removed in O(log n). A d-ary heap (D. B. Johnson, 1975) is half as
// deep as a binary one, and four children lie in one or two cache lines.
type order struct {
	slots   slots
	entries []entry
	arrival uint32 // that of the latest entry
}

// entry is the place of one slot in the order.
type entry struct {
	at      int64
	arrival uint32
	slot    uint32
}

// before orders entries by instant; equal instants by arrival, whose difference
// is read modulo 2^32 since it wraps round.
func (e entry) before(other entry) bool {
	return e.at < other.at || e.at == other.at && int32(e.arrival-other.arrival) < 0
}

// place files slot at the instant at, as the last to arrive there: anew, or in
// place of where it was.
func (o *order) place(slot uint32, at int64) {
	o.arrival++
	e := entry{at: at, arrival: o.arrival, slot: slot}
	if i := o.slots.table[slot].link; i != absent {
		o.fill(int(i), e)
		return
	}
	o.entries = append(o.entries, e)
	o.up(len(o.entries)-1, e)
}

// remove takes slot, which must be present, out of the order. It stays in use.
func (o *order) remove(slot uint32) {
	i := int(o.slots.table[slot].link)
	o.slots.table[slot].link = absent
	end := len(o.entries) - 1
	last := o.entries[end]
	o.entries = o.entries[:end]
	if i < end {
		o.fill(i, last)
	}
}

// has reports whether slot, which must be in use, is present.
func (o *order) has(slot uint32) bool { return o.slots.table[slot].link != absent }

// fill puts e where it belongs, given a hole at i.
func (o *order) fill(i int, e entry) {
	if i > 0 && e.before(o.entries[(i-1)/arity]) {
		o.up(i, e)
		return
	}
	o.down(i, e)
}

// up moves the hole at i towards the root until e may fill it.
func (o *order) up(i int, e entry) {
	for i > 0 {
		parent := (i - 1) / arity
		if !e.before(o.entries[parent]) {
			break
		}
		o.set(i, o.entries[parent])
		i = parent
	}
	o.set(i, e)
}

// down moves the hole at i towards the leaves until e may fill it.
func (o *order) down(i int, e entry) {
	n := len(o.entries)
	for {
		child := arity*i + 1
		if child >= n {
			break
		}
		least := child
		for c := child + 1; c < min(child+arity, n); c++ {
			if o.entries[c].before(o.entries[least]) {
				least = c
			}
		}
		if !o.entries[least].before(e) {
			break
		}
		o.set(i, o.entries[least])
		i = least
	}
	o.set(i, e)
}

func (o *order) set(i int, e entry) {
	o.entries[i] = e
	o.slots.table[e.slot].link = int32(i)
}
