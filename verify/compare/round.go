// One round: a client, a fault, and what is measured.

package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/redis/go-redis/v9"
)

// row is what one round measured. Times are milliseconds.
type row struct {
	Client, Fault string
	Round         int
	Version       string `json:",omitempty"`
	Failed        string `json:",omitempty"` // why the round could not be played

	Overlap     float64  `json:",omitempty"` // two believed to hold the lock
	Told        *float64 `json:",omitempty"` // the old holder was notified, after the end of its lease, without the time that its process stood still; negative is before
	Never       bool     `json:",omitempty"` // another got the lock, and the old holder was not notified
	Unserved    bool     `json:",omitempty"` // somebody did not get the lock within 5 leases after the fault, and was no longer waited for
	Kept        bool     `json:",omitempty"` // nobody else got the lock until it was released
	Stale       int      `json:",omitempty"` // writes of an old holder after those of a later one
	StaleFenced int      `json:",omitempty"` // those of them that a resource that compares tokens accepts
	Free        float64  `json:",omitempty"` // somebody waited and nobody held the lock

	HandOvers   int     `json:",omitempty"`
	PerHandOver float64 `json:",omitempty"` // requests
	Jain        float64 `json:",omitempty"`
}

// round is a round that is played.
type round struct {
	*candidate
	servers *servers
	rnd     *rand.Rand
	key     string
	a, b    *child // the holder's process, and the other one
	row     *row
	end     int64 // the end of the holder's lease if the fault sets it

	sample sync.WaitGroup
	mu     sync.Mutex // guards all below
	turns  []*turn
	ends   []leaseEnd
}

// leaseEnd is a moment, and the end of the lease that the server reports then.
type leaseEnd struct{ at, end int64 }

// keys counts the rounds. Some servers are used again.
var keys atomic.Int64

// play plays one round.
func play(c *candidate, f *fault, number int) (result row) {
	result = row{Client: c.name, Fault: f.name, Round: number}
	defer func() {
		if p := recover(); p != nil {
			s, ok := p.(stop)
			if !ok {
				panic(p)
			}
			result.Failed = s.Error()
		}
	}()
	s, err := startServers(c.store)
	check(err)
	defer s.close()
	r := &round{candidate: c, servers: s, rnd: rand.New(rand.NewPCG(1, uint64(number))), key: fmt.Sprintf("lock%d", keys.Add(1)), row: &result}
	r.a = r.process()
	defer r.a.close()
	r.b = r.process()
	defer r.b.close()
	done := make(chan struct{})
	r.sample.Go(func() { r.sampleEnds(done) })
	stopSampling := sync.OnceFunc(func() {
		close(done)
		r.sample.Wait()
	})
	defer stopSampling()
	r.playUntilServed(f)
	stopSampling()
	r.sum(f)
	return result
}

// playUntilServed plays the fault, to its end or until somebody is not served.
func (r *round) playUntilServed(f *fault) {
	defer func() {
		p := recover()
		if err, ok := p.(error); ok && errors.Is(err, errUnserved) {
			return
		}
		if p != nil {
			panic(p)
		}
	}()
	f.play(r)
}

// stop ends a round that cannot be played.
type stop struct{ error }

// errUnserved ends a round in which somebody does not get the lock.
var errUnserved = errors.New("not served")

func check(err error) {
	if err != nil {
		panic(stop{err})
	}
}

func (r *round) process() *child {
	k, hello, err := startChild(r.candidate, r.servers.addrs)
	check(err)
	r.row.Version = hello.Text
	return k
}

// open makes sessions in a process, a few at a time: rueidislock allows a try 20 ms.
func (r *round) open(k *child, sessions ...string) {
	for some := range slices.Chunk(sessions, 8) {
		var all []<-chan message
		for _, s := range some {
			all = append(all, k.begin(request{Do: doOpen, Session: s, Key: "warm" + s + strconv.Itoa(r.rnd.IntN(1e9))}))
		}
		for _, c := range all {
			_, err := k.wait(c, answerTimeout)
			check(err)
		}
	}
}

// between sleeps for a random time.
func (r *round) between(low, high time.Duration) {
	time.Sleep(low + time.Duration(r.rnd.Int64N(int64(high-low))))
}

// waiter is an acquire that has begun. If it fails, it begins again after a while, as a program would.
type waiter struct {
	*turn
	round *round
	child *child
	done  chan struct{} // closed when the session has the lock, or has given up
}

const againAfter = 50 * time.Millisecond

// acquire begins to wait for the lock in a session.
func (r *round) acquire(k *child, session string) *waiter {
	w := &waiter{turn: &turn{session: session, asked: now()}, round: r, child: k, done: make(chan struct{})}
	r.mu.Lock()
	r.turns = append(r.turns, w.turn)
	r.mu.Unlock()
	reply := k.begin(request{Do: doAcquire, Session: session, Key: r.key})
	go func() {
		defer close(w.done)
		for {
			m, err := k.wait(reply, time.Minute)
			r.mu.Lock()
			if err == nil {
				w.got, w.token, w.until = m.At, m.Token, never
				r.mu.Unlock()
				return
			}
			w.gaveUp = now()
			r.mu.Unlock()
			select {
			case <-k.ended:
				return
			case <-time.After(againAfter):
			}
			r.mu.Lock()
			w.gaveUp = 0
			r.mu.Unlock()
			reply = k.begin(request{Do: doAcquire, Session: session, Key: r.key})
		}
	}()
	return w
}

// never is an instant that does not come.
const never = int64(1) << 62

// granted waits until the session has the lock, and reports whether it got it in time.
func (w *waiter) granted(most time.Duration) bool {
	select {
	case <-w.done:
		return w.got != 0
	case <-time.After(most):
		return false
	}
}

// must waits until the session has the lock.
func (w *waiter) must() {
	if !w.granted(5 * lease) {
		w.round.row.Unserved = true
		panic(errUnserved)
	}
}

// told returns when the session was notified that its lock is lost.
func (w *waiter) told() (int64, bool) { return w.child.told(w.session, w.got) }

// release releases the lock, and ends the belief of the session. The reply may be awaited.
func (w *waiter) release() <-chan message {
	w.until = now()
	return w.child.begin(request{Do: doRelease, Session: w.session})
}

// released releases the lock and waits for the reply, which may be an error.
func (w *waiter) released() { _, _ = w.child.wait(w.release(), answerTimeout) }

// hold has a session hold the lock and another one wait for it, for a random time.
func (r *round) hold() (a, b *waiter) {
	r.open(r.a, "a")
	r.open(r.b, "b")
	a = r.acquire(r.a, "a")
	a.must()
	b = r.acquire(r.b, "b")
	r.between(lease/4, lease*3/4)
	return a, b
}

// observe waits until b has the lock, and then until a is notified. Both release.
func (r *round) observe(a, b *waiter, most time.Duration) {
	if b.granted(most) {
		for end := time.Now().Add(2 * lease); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			if _, ok := a.told(); ok && now() > b.got+nanos(lease/10) {
				break
			}
		}
		b.released()
		a.released()
		return
	}
	r.row.Kept = true
	a.released()
	b.must()
	time.Sleep(50 * time.Millisecond)
	b.released()
}

// during lets a fault last for a time.
func during(d time.Duration, begin, end func() error) {
	check(begin())
	time.Sleep(d)
	check(end())
}

// stopHolder stops the process of the holder for a time.
func (r *round) stopHolder(a *waiter, d time.Duration) {
	from := now()
	during(d, func() error { return r.a.signal(syscall.SIGSTOP) }, func() error { return r.a.signal(syscall.SIGCONT) })
	a.stopped = append(a.stopped, span{from, now()})
}

// sampleEnds asks the server when the lease ends.
func (r *round) sampleEnds(done <-chan struct{}) {
	if r.lockKey == "" {
		return
	}
	addrs := r.servers.addrs // a fault of one server hits the first
	rdb := redis.NewClient(&redis.Options{Addr: addrs[len(addrs)/2], ReadTimeout: lease / 20, MaxRetries: -1, PoolSize: 1})
	defer func() { _ = rdb.Close() }()
	for every(done, 5*time.Millisecond) {
		before := now()
		left, err := rdb.PTTL(context.Background(), fmt.Sprintf(r.lockKey, r.key)).Result()
		if err == nil && left > 0 {
			r.mu.Lock()
			r.ends = append(r.ends, leaseEnd{before, before + nanos(left)})
			r.mu.Unlock()
		}
	}
}

// endBefore returns the end of the lease that came before another holder had the lock.
func (r *round) endBefore(got int64) int64 {
	if r.end != 0 {
		return r.end
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range slices.Backward(r.ends) {
		if e.at < got && e.end <= got+nanos(lease/10) {
			return e.end
		}
	}
	return got
}

// sum computes the row from what the sessions believed.
func (r *round) sum(f *fault) {
	r.mu.Lock()
	var turns []*turn
	for _, t := range r.turns { // some may still wait
		c := *t
		turns = append(turns, &c)
	}
	r.mu.Unlock()
	end := now()
	for _, t := range turns {
		if t.got == 0 && t.gaveUp == 0 {
			t.gaveUp = end
		}
		t.until = min(t.until, end)
		for _, k := range []*child{r.a, r.b} {
			k.mu.Lock()
			for _, e := range k.events {
				switch {
				case e.Session != t.session || t.got == 0 || e.At < t.got:
				case e.Event == eventTold:
					t.until = min(t.until, e.At)
				case e.Event == eventWrite:
					t.writes = append(t.writes, e.At)
				}
			}
			k.mu.Unlock()
		}
	}
	r.row.Overlap = millis(overlap(turns))
	r.row.Stale, r.row.StaleFenced = stale(turns)
	r.row.Free = millis(free(turns))
	if f.loses && !r.row.Kept && len(turns) > 1 && turns[0].got != 0 && turns[1].got != 0 {
		if at, ok := r.a.told(turns[0].session, turns[0].got); ok {
			end := r.endBefore(turns[1].got)
			for _, s := range turns[0].stopped {
				end += s.and(span{end, at}).length() // nobody can be notified then
			}
			late := millis(at - end)
			r.row.Told = &late
		} else {
			r.row.Never = true
		}
	}
}
