// The set of visited states, a hash table of fingerprints.

package model

// visitedSet is a set of fingerprints with their parents, an open-addressing hash table. A
// fingerprint is never 0.
type visitedSet struct {
	n     uint64
	slots []slot
}

type slot struct{ state, parent uint64 }

func newVisitedSet() *visitedSet { return &visitedSet{slots: make([]slot, 1<<12)} }

// add adds a fingerprint and returns whether it is new.
func (t *visitedSet) add(state, parent uint64) bool {
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

func (t *visitedSet) parent(state uint64) uint64 { return t.slots[t.find(state)].parent }

// find returns the index of a fingerprint, or of its free slot.
func (t *visitedSet) find(state uint64) uint64 {
	mask := uint64(len(t.slots) - 1)
	at := state & mask
	for t.slots[at].state != 0 && t.slots[at].state != state {
		at = (at + 1) & mask
	}
	return at
}

func (t *visitedSet) grow() {
	old := t.slots
	t.slots = make([]slot, 2*len(old))
	for _, s := range old {
		if s.state != 0 {
			t.slots[t.find(s.state)] = s
		}
	}
}
