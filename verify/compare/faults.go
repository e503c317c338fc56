// The faults.

package main

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// fault is something that happens while a lock is held or waited for.
type fault struct {
	name   string
	title  string // for the page
	loses  bool   // the holder may lose the lock, and is notified or not
	renews bool   // only clients that renew
	kind   string // only on this kind of servers, and on several of them; "" means any
	play   func(r *round)
}

func faults() []*fault {
	return []*fault{
		{name: "acquire-lost", title: "answer to the acquire lost", play: acquireLost},
		{name: "release-lost", title: "answer to the release lost", play: releaseLost},
		{name: "renewal-lost", title: "answer to a renewal lost", loses: true, renews: true, play: renewalLost},
		{name: "hang-half", title: "store hangs ½ lease", loses: true, play: hang(lease / 2)},
		{name: "hang-two", title: "store hangs 2 leases", loses: true, play: hang(2 * lease)},
		{name: "cut", title: "holder cut off 2 leases", loses: true, play: cut},
		{name: "stop-half", title: "holder stopped ½ lease", loses: true, play: stopped(lease / 2)},
		{name: "stop-two", title: "holder stopped 2 leases", loses: true, play: stopped(2 * lease)},
		{name: "kill", title: "holder killed", play: killed},
		{name: "fail-over", title: "fail-over", loses: true, kind: redisServer, play: failedOver},
		{name: "restart", title: "restart", loses: true, kind: redisServer, play: restarted},
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
	first.released()
	if second.granted(3 * lease) {
		second.released()
	} else {
		r.row.Unserved = true
	}
}

func releaseLost(r *round) {
	a, b := r.hold()
	r.a.proxies[0].LoseAnswer(r.bytesOf(r.key))
	reply := a.release()
	b.must()
	_, _ = r.a.wait(reply, answerTimeout)
	b.released()
	r.checkLoss()
}

// checkLoss ends a round in which no answer was lost.
func (r *round) checkLoss() {
	if !r.a.proxies[0].HasLost() {
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

func killed(r *round) {
	a, b := r.hold()
	r.a.kill()
	a.until = now()
	b.must()
	b.released()
}

func failedOver(r *round) {
	check(r.servers.loseReplica(context.Background()))
	a, b := r.hold()
	addr := r.servers.failOver()
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
	requests := r.b.packets()
	m, err := r.b.call(request{Do: doContend, Session: "w", Key: r.key, N: waiting, Millis: int(waitingTime.Milliseconds())})
	check(err)
	requests = r.b.packets() - requests
	for _, n := range m.Counts {
		r.row.HandOvers += n
	}
	r.row.PerHandOver = float64(requests) / float64(max(1, r.row.HandOvers))
	r.row.Jain = jain(m.Counts)
}
