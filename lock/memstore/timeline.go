package memstore

import (
	"time"
)

// timeline schedules checks of keys, so that expired leases are removed even if no caller
// asks for their keys. A key is in the list with the shortest interval that outlasts its
// leases. All keys of a list wait for the same interval, so each list is sorted by time.
type timeline struct {
	lists [18]stateList // intervals of 1 s, 2 s, 4 s and so on; the last list also takes longer leases
}

const shortestWait = time.Second

type stateList struct{ first, last *state }

// timelineNode is the place of a state in a timeline.
type timelineNode struct {
	at         time.Time
	list       *stateList // nil if the state is in no list
	prev, next *state
}

// schedule files a state, which is in no list, so that it is checked after at least the
// given wait and at most twice that.
func (t *timeline) schedule(k *state, now time.Time, wait time.Duration) {
	i, step := 0, shortestWait
	for step < wait && i < len(t.lists)-1 {
		i, step = i+1, 2*step
	}
	l := &t.lists[i]
	k.node = timelineNode{at: now.Add(step), list: l, prev: l.last}
	if l.last == nil {
		l.first = k
	} else {
		l.last.node.next = k
	}
	l.last = k
}

// remove removes a state from its list, if it is in one.
func (t *timeline) remove(k *state) {
	l := k.node.list
	if l == nil {
		return
	}
	if k.node.prev == nil {
		l.first = k.node.next
	} else {
		k.node.prev.node.next = k.node.next
	}
	if k.node.next == nil {
		l.last = k.node.prev
	} else {
		k.node.next.node.prev = k.node.prev
	}
	k.node = timelineNode{}
}

// sweepBatch is the number of keys, and of tombstones, that one call of the store checks
// in addition to its own. It is more than one call can leave behind.
const sweepBatch = 4

// due removes from the lists, and returns, some states whose check is due.
func (t *timeline) due(now time.Time) (due [sweepBatch]*state) {
	n := 0
	for i := range t.lists {
		for k := t.lists[i].first; k != nil && !now.Before(k.node.at); k = t.lists[i].first {
			if n == len(due) {
				return due
			}
			t.remove(k)
			due[n] = k
			n++
		}
	}
	return due
}
