package lock

import "sync"

// ageList finds items that stay in it for long. An item contains its node, so adding and
// removing it takes a mutex and no memory. The age is counted in ticks, so that a pause of
// the process does not count.
type ageList[T any] struct {
	mu          sync.Mutex // guards the fields below and those of all nodes
	first, last *ageNode[T]
	now         int // ticks so far
}

// ageNode is a place in an ageList. The list is in the order of added.
type ageNode[T any] struct {
	prev, next *ageNode[T]
	item       *T // nil unless the node is in the list
	added      int
}

// add adds an item, whose node is n.
func (l *ageList[T]) add(n *ageNode[T], item *T) {
	l.mu.Lock()
	defer l.mu.Unlock()
	*n = ageNode[T]{prev: l.last, item: item, added: l.now}
	if n.prev == nil {
		l.first = n
	} else {
		n.prev.next = n
	}
	l.last = n
}

// remove removes the item of n. It returns false if the item is not in the list.
func (l *ageList[T]) remove(n *ageNode[T]) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if n.item == nil {
		return false
	}
	l.unlink(n)
	return true
}

// unlink is called with mu held.
func (l *ageList[T]) unlink(n *ageNode[T]) {
	if n.prev == nil {
		l.first = n.next
	} else {
		n.prev.next = n.next
	}
	if n.next == nil {
		l.last = n.prev
	} else {
		n.next.prev = n.prev
	}
	*n = ageNode[T]{}
}

// tick makes all items older by one.
func (l *ageList[T]) tick() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now++
}

// maxTaken bounds the time for which take holds the mutex.
const maxTaken = 1000

// take removes and returns items that are older than age, at most maxTaken. It also reports
// whether items are left.
func (l *ageList[T]) take(age int) (old []*T, left bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(old) < maxTaken && l.first != nil && l.now-l.first.added > age {
		old = append(old, l.first.item)
		l.unlink(l.first)
	}
	return old, l.first != nil
}
