package redisson

import (
	"fmt"
	"strconv"
	"sync"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/leasewheel/leasewheel/verify/interop/internal/report"
)

// handOvers measures how long a waiter of the other side takes to notice a release. Each lock lasts for
// longer than the test waits, so only the right message in the right channel wakes the waiter in time.
// Each hand-over has a key of its own. Otherwise one side could still be subscribed to the channel,
// because a subscription outlasts its last waiter, and the waiter would count as subscribed too early.
func handOvers(p *pair, where string, rounds int) {
	p = p.patient()
	for _, kinds := range [][2]string{{"lock", "lock"}, {"fair", "fair"}, {"fenced", "fenced"}, {"write", "write"}, {"write", "read"}, {"read", "write"}} {
		var toJava, toGo []time.Duration
		for i := range rounds {
			key := fmt.Sprint("hand over ", kinds, i)
			toJava = append(toJava, p.handToJava(kinds[0], kinds[1], key))
			toGo = append(toGo, p.handToGo(kinds[0], kinds[1], key+" back"))
		}
		name := kinds[0]
		if kinds[1] != name {
			name += " to " + kinds[1]
		}
		report.HandOvers(library, name+", "+where, toJava, toGo)
	}
}

// handToJava lets the peer wait for a lock of Go. It returns how long the peer took. It releases when the
// peer's thread is parked: the message of a writer wakes only the readers that are, in Redisson's LockPubSub.
func (p *pair) handToJava(holder, waiter, key string) time.Duration {
	p.Helper()
	h := p.lock(holder, key)
	acquired := p.java.start("a", "lock", waiter, key, millis(lease))
	p.awaitWaiter(key)
	p.java.do("watch", "parked", "a")
	p.java.pending(acquired)
	released := time.Now()
	p.unlock(h)
	took := microTime(p, p.java.woken(acquired)).Sub(released)
	p.java.do("a", "unlock", waiter, key)
	return took
}

// handToGo lets Go wait for a lock of the peer. It returns how long Go took.
func (p *pair) handToGo(holder, waiter, key string) time.Duration {
	p.Helper()
	p.java.do("a", "lock", holder, key, millis(lease))
	got := p.later(p.locker(waiter, key))
	p.awaitWaiter(key)
	assert.Empty(p, got, "Go must wait")
	released := microTime(p, p.java.do("a", "unlock", holder, key))
	g := p.get(got, woken)
	p.unlock(g.held)
	return g.at.Sub(released)
}

// fairOrder queues waiters of both sides by turns. They must be served in that order.
func fairOrder(p *pair) {
	holder := p.lock("fair", "order")
	const each = 4
	var mu sync.Mutex
	var order []int
	note := func(i int) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, i)
	}
	var wg sync.WaitGroup
	for i := range 2 * each {
		if i%2 == 0 {
			_, clients := p.more() // one client has one place
			wg.Go(func() {
				h, err := clients["fair"].Mutex("order").Lock(p.Context())
				if assert.NoError(p, err) {
					note(i)
					assert.NoError(p, h.Unlock(p.Context()))
				}
			})
		} else {
			thread := "fair " + strconv.Itoa(i)
			acquired := p.java.start(thread, "lock", "fair", "order", "-1")
			wg.Go(func() {
				if a := <-acquired; assert.Equal(p, "ok", a.kind, a.text) {
					note(i)
					<-p.java.start(thread, "unlock", "fair", "order")
				}
			})
		}
		p.queued("order", i+1)
	}
	p.unlock(holder)
	wg.Wait()
	assert.Equal(p, []int{0, 1, 2, 3, 4, 5, 6, 7}, order)
}
