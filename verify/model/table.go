package model

// table is a set of fingerprints, each with the one that it was reached from. A
// fingerprint is never 0.
type table struct {
	n     uint64
	slots []slot
}

type slot struct{ state, parent uint64 }

func newTable() *table { return &table{slots: make([]slot, 1<<12)} }

// add tells whether the fingerprint is new.
func (t *table) add(state, parent uint64) bool {
	at := t.find(state)
	if t.slots[at].state != 0 {
		return false
	}
	t.slots[at] = slot{state, parent}
	t.n++
	if t.n*4 > uint64(len(t.slots))*3 {
		t.grow()
	}
	return true
}

func (t *table) parent(state uint64) uint64 { return t.slots[t.find(state)].parent }

// find returns where a fingerprint is, or would be.
func (t *table) find(state uint64) uint64 {
	mask := uint64(len(t.slots) - 1)
	at := state & mask
	for t.slots[at].state != 0 && t.slots[at].state != state {
		at = (at + 1) & mask
	}
	return at
}

func (t *table) grow() {
	old := t.slots
	t.slots = make([]slot, 2*len(old))
	for _, s := range old {
		if s.state != 0 {
			t.slots[t.find(s.state)] = s
		}
	}
}
