// The peer containerheap, a delay queue written by hand.

package main

import (
	"container/heap"
	"sync"
	"time"
)

// containerHeap is the delay queue that a programmer would write by hand:
// container/heap with items that know their index, a mutex, and a goroutine that
// sleeps until the first item is due and calls its function.
type containerHeap struct {
	mu    sync.Mutex // guards items
	items itemHeap
	wake  chan struct{}
	done  chan struct{}
}

type item struct {
	at    int64
	index int // -1 outside of the heap
	f     func()
}

func newContainerHeap(spec) engine[*item] {
	c := &containerHeap{wake: make(chan struct{}, 1), done: make(chan struct{})}
	go c.work()
	return c
}

func (c *containerHeap) add(d time.Duration, i *item) {
	at := now() + int64(d)
	c.mu.Lock()
	i.at = at
	heap.Push(&c.items, i)
	first := i.index == 0
	c.mu.Unlock()
	if !first {
		return
	}
	select {
	case c.wake <- struct{}{}:
	default: // a wake-up is pending
	}
}

func (c *containerHeap) noop(d time.Duration) *item {
	i := &item{f: noop}
	c.add(d, i)
	return i
}

func (c *containerHeap) call(d time.Duration, f func()) { c.add(d, &item{f: f}) }

func (c *containerHeap) stop(i *item) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if i.index >= 0 {
		heap.Remove(&c.items, i.index)
	}
}

// reset does not wake the worker, because the harness moves only timers that are
// hours away.
func (c *containerHeap) reset(i *item, d time.Duration) *item {
	at := now() + int64(d)
	c.mu.Lock()
	defer c.mu.Unlock()
	i.at = at
	heap.Fix(&c.items, i.index)
	return i
}

func (c *containerHeap) fire(d time.Duration, due int64) {
	c.call(d, func() { recordFire(due) })
}

func (c *containerHeap) every(period time.Duration) {
	i := new(item)
	i.f = func() {
		recordPeriodic()
		c.add(period, i)
	}
	c.add(period, i)
}

func (c *containerHeap) close() { close(c.done) }

// work calls the functions of due items one by one, without the mutex.
func (c *containerHeap) work() {
	timer := time.NewTimer(forever)
	defer timer.Stop()
	for {
		wait := forever
		c.mu.Lock()
		for len(c.items) > 0 {
			wait = time.Duration(c.items[0].at - now())
			if wait > 0 {
				break
			}
			i := heap.Pop(&c.items).(*item)
			c.mu.Unlock()
			i.f()
			c.mu.Lock()
			wait = forever
		}
		c.mu.Unlock()
		timer.Reset(wait)
		select {
		case <-timer.C:
		case <-c.wake:
		case <-c.done:
			return
		}
	}
}

type itemHeap []*item

func (h itemHeap) Len() int           { return len(h) }
func (h itemHeap) Less(i, j int) bool { return h[i].at < h[j].at }

func (h itemHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].index, h[j].index = i, j
}

func (h *itemHeap) Push(x any) {
	i := x.(*item)
	i.index = len(*h)
	*h = append(*h, i)
}

func (h *itemHeap) Pop() any {
	last := len(*h) - 1
	i := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	i.index = -1
	return i
}
