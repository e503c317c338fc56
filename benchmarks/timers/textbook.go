package main

import (
	"container/heap"
	"sync"
	"time"
)

// textbook is the delay queue that one writes by hand: container/heap with items
// that know their index, a mutex, and a goroutine that sleeps until the first is
// due and runs its function itself.
type textbook struct {
	mu    sync.Mutex // guards items
	items items
	wake  chan struct{}
	done  chan struct{}
}

type item struct {
	at    int64
	index int // -1 if not in the heap
	f     func()
}

func newTextbook(spec) engine[*item] {
	t := &textbook{wake: make(chan struct{}, 1), done: make(chan struct{})}
	go t.work()
	return t
}

func (t *textbook) arm(d time.Duration, i *item) {
	at := now() + int64(d)
	t.mu.Lock()
	i.at = at
	heap.Push(&t.items, i)
	first := i.index == 0
	t.mu.Unlock()
	if !first {
		return
	}
	select {
	case t.wake <- struct{}{}:
	default: // it is to look anew already
	}
}

func (t *textbook) nop(d time.Duration) *item {
	i := &item{f: nop}
	t.arm(d, i)
	return i
}

func (t *textbook) stop(i *item) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if i.index >= 0 {
		heap.Remove(&t.items, i.index)
	}
}

// reset need not wake the worker for the timers of the harness: they are far off.
func (t *textbook) reset(i *item, d time.Duration) *item {
	at := now() + int64(d)
	t.mu.Lock()
	defer t.mu.Unlock()
	i.at = at
	heap.Fix(&t.items, i.index)
	return i
}

func (t *textbook) fire(d time.Duration, due int64) {
	t.arm(d, &item{f: func() { arrived(due) }})
}

func (t *textbook) every(period time.Duration) {
	i := new(item)
	i.f = func() {
		beat()
		t.arm(period, i)
	}
	t.arm(period, i)
}

func (t *textbook) close() { close(t.done) }

// work runs what is due, one function at a time, without the lock.
func (t *textbook) work() {
	timer := time.NewTimer(forever)
	defer timer.Stop()
	for {
		wait := forever
		t.mu.Lock()
		for len(t.items) > 0 {
			wait = time.Duration(t.items[0].at - now())
			if wait > 0 {
				break
			}
			i := heap.Pop(&t.items).(*item)
			t.mu.Unlock()
			i.f()
			t.mu.Lock()
			wait = forever
		}
		t.mu.Unlock()
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-t.wake:
		case <-t.done:
			return
		}
	}
}

type items []*item

func (s items) Len() int           { return len(s) }
func (s items) Less(i, j int) bool { return s[i].at < s[j].at }

func (s items) Swap(i, j int) {
	s[i], s[j] = s[j], s[i]
	s[i].index, s[j].index = i, j
}

func (s *items) Push(x any) {
	i := x.(*item)
	i.index = len(*s)
	*s = append(*s, i)
}

func (s *items) Pop() any {
	last := len(*s) - 1
	i := (*s)[last]
	(*s)[last] = nil
	*s = (*s)[:last]
	i.index = -1
	return i
}
