// The faults.

package main

import (
	"errors"
	"fmt"
	"sync"
	"time"
)

// fault is something that happens while a lock is held or waited for.
type fault struct {
	name   string
	title  string // for the page
	loses  bool   // the holder may lose the lock, and is told or not
	leaves bool   // count the keys that remain
	renews bool   // only clients that renew
	kind   string // only on this kind of servers, and on several of them; "" means any
	play   func(r *round)
}

func faults() []*fault {
	return []*fault{
		{name: "acquire-lost", title: "answer to the acquire lost", leaves: true, play: acquireLost},
		{name: "release-lost", title: "answer to the release lost", leaves: true, play: releaseLost},
		{name: "renewal-lost", title: "answer to a renewal lost", loses: true, renews: true, play: renewalLost},
		{name: "hang-half", title: "store hangs ½ lease", loses: true, play: hang(lease / 2)},
		{name: "hang-two", title: "store hangs 2 leases", loses: true, play: hang(2 * lease)},
		{name: "cut", title: "holder cut off 2 leases", loses: true, play: cut},
		{name: "stop-half", title: "holder stopped ½ lease", loses: true, play: stopped(lease / 2)},
		{name: "stop-two", title: "holder stopped 2 leases", loses: true, play: stopped(2 * lease)},
		{name: "kill-1", title: "holder killed", leaves: true, play: killed(1)},
		{name: "kill-20", title: "holder killed, 20 wait", leaves: true, play: killed(20)},
		{name: "cancel", title: "wait cancelled", leaves: true, play: cancelled(false)},
		{name: "cancel-release", title: "wait cancelled at the release", leaves: true, play: cancelled(true)},
		{name: "fail-over", title: "fail-over", loses: true, kind: redisServer, play: failedOver},
		{name: "restart", title: "restart", loses: true, kind: redisServer, play: restarted},
		{name: "late-release", title: "late release", play: lateRelease},
		{name: "waiters", title: "64 waiters", play: waiters},
	}
}

func acquireLost(r *round) {
	r.open(r.a, "a")
	r.open(r.b, "b")
	r.a.proxies[0].LoseAnswer(r.bytesOf(r.key))
	a := r.acquire(r.a, "a")
	time.Sleep(lease / 20)
	b := r.acquire(r.b, "b")
	defer r.checkLoss()
	first, second := a, b
	select {
	case <-a.done:
	case <-b.done:
		first, second = b, a
	case <-time.After(3 * lease):
		r.row.Unserved = true
		return
	}
	time.Sleep(lease / 20)
	r.note(first.released())
	if second.granted(3 * lease) {
		r.note(second.released())
	} else {
		r.row.Unserved = true
	}
}

func releaseLost(r *round) {
	a, b := r.hold()
	r.a.proxies[0].LoseAnswer(r.bytesOf(r.key))
	reply := a.release()
	b.must()
	_, err := r.a.wait(reply, answerTimeout)
	r.note(err)
	_ = b.released()
	r.checkLoss()
}

// checkLoss ends a round in which no answer was lost.
func (r *round) checkLoss() {
	if !r.single && !r.a.proxies[0].HasLost() {
		check(errors.New("no answer was lost"))
	}
}

func renewalLost(r *round) {
	a, b := r.hold()
	r.a.proxies[0].LoseAnswer(r.renewal)
	r.observe(a, b, 2*lease)
	r.checkLoss()
}

func hang(d time.Duration) func(r *round) {
	return func(r *round) {
		a, b := r.hold()
		during(d, r.servers.hang, r.servers.resume)
		r.observe(a, b, 3*lease/2)
	}
}

func cut(r *round) {
	a, b := r.hold()
	for _, p := range r.a.proxies {
		p.Block()
	}
	time.AfterFunc(2*lease, func() {
		for _, p := range r.a.proxies {
			p.Unblock()
		}
	})
	r.observe(a, b, 3*lease)
}

func stopped(d time.Duration) func(r *round) {
	return func(r *round) {
		a, b := r.hold()
		r.stopHolder(a, d)
		r.observe(a, b, 3*lease/2)
	}
}

func killed(n int) func(r *round) {
	return func(r *round) {
		var names []string
		for i := range n {
			names = append(names, fmt.Sprint("b", i))
		}
		r.open(r.a, "a")
		r.open(r.b, names...)
		a := r.acquire(r.a, "a")
		a.must()
		var all []*waiter
		for _, name := range names {
			all = append(all, r.acquire(r.b, name))
		}
		r.between(lease/4, lease*3/4)
		r.a.kill()
		a.until = now()
		var served sync.WaitGroup
		errs := make([]error, n)
		for i, w := range all {
			served.Go(func() {
				if w.granted(answerTimeout) {
					errs[i] = w.released()
				} else {
					errs[i] = errUnserved
				}
			})
		}
		served.Wait()
		r.row.All = millis(now() - a.until)
		for _, err := range errs {
			r.row.Unserved = r.row.Unserved || errors.Is(err, errUnserved)
			r.note(err)
		}
	}
}

// cancelled cancels the wait of b, and c waits behind it.
func cancelled(atRelease bool) func(r *round) {
	return func(r *round) {
		a, b := r.hold()
		r.open(r.b, "c")
		c := r.acquire(r.b, "c")
		time.Sleep(lease / 10)
		if atRelease {
			early := r.rnd.IntN(2) == 0
			apart := time.Duration(r.rnd.Int64N(int64(2 * time.Millisecond)))
			var reply <-chan message
			if !early {
				reply = a.release()
				time.Sleep(apart)
			}
			b.cancel()
			if early {
				time.Sleep(apart)
				reply = a.release()
			}
			_, err := r.a.wait(reply, answerTimeout)
			r.note(err)
		} else {
			b.cancel()
			time.Sleep(lease / 10)
			r.note(a.released())
		}
		if b.granted(lease / 20) { // it won the race
			r.note(b.released())
		}
		c.must()
		r.note(c.released())
		if b.granted(lease / 20) {
			r.note(b.released())
		}
	}
}

func failedOver(r *round) {
	check(r.servers.loseReplica(r.context()))
	a, b := r.hold()
	addr, err := r.servers.failOver()
	check(err)
	r.end = now()
	for _, k := range []*child{r.a, r.b} {
		k.proxies[0].Redirect(addr)
	}
	r.observe(a, b, 2*lease)
}

func restarted(r *round) {
	a, b := r.hold()
	r.end = now()
	check(r.servers.restart())
	r.observe(a, b, 2*lease)
}

// lateRelease holds the release back until another session has the lock. A third one waits for half a
// lease, and must not get it.
func lateRelease(r *round) {
	a, b := r.hold()
	for _, p := range r.a.proxies {
		p.BlockRequests()
	}
	reply := a.release()
	b.must()
	r.open(r.b, "c")
	c := r.acquire(r.b, "c")
	time.Sleep(lease / 10)
	for _, p := range r.a.proxies {
		p.Unblock()
	}
	early := c.granted(lease / 2) // before the lease of b ends if it is not renewed
	_, lost := b.told()
	r.row.Robbed = early || lost
	_ = b.released()
	c.must()
	_ = c.released()
	_, err := r.a.wait(reply, answerTimeout)
	r.note(err)
}

const (
	waiting     = 64
	waitingTime = 2 * lease
)

func waiters(r *round) {
	var names []string
	for i := range waiting {
		names = append(names, fmt.Sprint("w", i))
	}
	r.open(r.b, names...)
	requests, used := r.b.packets(), cpu(r.b.cmd.Process.Pid)
	m, err := r.b.call(request{Do: doContend, Session: "w", Key: r.key, N: waiting, Millis: int(waitingTime.Milliseconds())})
	check(err)
	requests, used = r.b.packets()-requests, cpu(r.b.cmd.Process.Pid)-used
	for _, n := range m.Counts {
		r.row.HandOvers += n
	}
	r.row.PerHandOver = float64(requests) / float64(max(1, r.row.HandOvers))
	r.row.CPU = used / float64(max(1, r.row.HandOvers))
	r.row.Jain = jain(m.Counts)
}
