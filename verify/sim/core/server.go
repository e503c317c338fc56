// The server: its leases, its queue, its clock and its copies.

package core

import (
	"maps"
	"slices"
	"time"
)

// server keeps leases according to the protocol of this module, with atomic steps. World.Mu
// guards it.
type server struct {
	clock   serverClock
	data    data
	copies  []data // older states, the latest one last
	granted func(key, owner string, token uint64)
	kept    func(key, owner string, token uint64) // called when a lease has its full TTL again
	signal  func(owner string, token uint64)
}

// data is the state that a server can lose.
type data struct {
	locks  map[string]lease
	tokens map[string]memory   // key → the last token
	queues map[string][]string // key → waiting owners
	places map[string]int64    // owner → end of its place
	tombs  map[string]int64    // owner → end of its tombstone
}

type lease struct {
	owner string
	token uint64
	until int64 // on the server's clock
}

type memory struct {
	token uint64
	until int64
}

const (
	tokenMemory = 10 * time.Minute
	tombstone   = time.Minute
)

// serverClock runs at its own rate, and can be stepped.
type serverClock struct {
	start time.Time
	rate  float64
	step  time.Duration
}

// now returns the time of the server in nanoseconds since 1970.
func (c serverClock) now() int64 {
	elapsed := float64(time.Since(c.start)) * c.rate
	return c.start.UnixNano() + int64(elapsed) + int64(c.step)
}

func newServer(start time.Time, rate float64) *server {
	return &server{clock: serverClock{start: start, rate: rate}, data: emptyData()}
}

func emptyData() data {
	return data{map[string]lease{}, map[string]memory{}, map[string][]string{}, map[string]int64{}, map[string]int64{}}
}

func (d data) clone() data {
	queues := make(map[string][]string, len(d.queues))
	for key, queue := range d.queues {
		queues[key] = slices.Clone(queue)
	}
	return data{maps.Clone(d.locks), maps.Clone(d.tokens), queues, maps.Clone(d.places), maps.Clone(d.tombs)}
}

// answer is the answer to an acquire.
type answer struct {
	verdict   verdict
	token     uint64        // granted: the fencing token; taken: a lower bound of the tokens of later grants
	expiresIn time.Duration // taken: the rest of the lease
	head      bool          // taken: the owner is the first in the queue
}

type verdict uint8

const (
	refused verdict = iota
	taken
	granted
)

// acquire tries to take a lock. If place is positive and the lock is taken, the owner enters
// the queue, or extends its place there.
func (s *server) acquire(key, owner string, ttl, place time.Duration) answer {
	now := s.clock.now()
	if s.data.tombs[owner] > now {
		return answer{verdict: refused}
	}
	if held, ok := s.alive(key); ok && held.owner == owner {
		s.data.locks[key] = lease{owner, held.token, max(held.until, now+int64(ttl))}
		s.kept(key, owner, held.token)
		return answer{verdict: granted, token: held.token}
	} else if !ok {
		next, left := s.nextAlive(key)
		if next == "" || next == owner {
			return answer{verdict: granted, token: s.grant(key, owner, ttl)}
		}
		s.signal(next, s.grant(key, next, left))
	}
	a := answer{verdict: taken}
	if place > 0 {
		if s.data.places[owner] == 0 {
			s.data.queues[key] = append(s.data.queues[key], owner)
		}
		s.data.places[owner] = now + int64(place)
		a.head = s.data.queues[key][0] == owner
	}
	a.token = max(s.data.tokens[key].token, uint64(now/1000))
	a.expiresIn = time.Duration(s.data.locks[key].until - now)
	return a
}

// grant grants a free lock to an owner, and returns the token.
func (s *server) grant(key, owner string, px time.Duration) uint64 {
	now := s.clock.now()
	token := uint64(now / 1000)
	if last := s.data.tokens[key]; last.until > now {
		token = max(token, last.token+1)
	}
	s.data.tokens[key] = memory{token, int64(token)*1000 + int64(tokenMemory)}
	s.data.locks[key] = lease{owner, token, now + int64(px)}
	s.granted(key, owner, token)
	return token
}

// nextAlive removes the first owner with a live place from a queue, and all owners before it.
func (s *server) nextAlive(key string) (owner string, left time.Duration) {
	now := s.clock.now()
	for queue := s.data.queues[key]; len(queue) > 0; queue = s.data.queues[key] {
		ends := s.data.places[queue[0]]
		delete(s.data.places, queue[0])
		s.data.queues[key] = queue[1:]
		if ends > now {
			return queue[0], time.Duration(ends - now)
		}
	}
	return "", 0
}

// renew renews a lease to its full TTL if that owner holds it with that token.
func (s *server) renew(key, owner string, token uint64, ttl time.Duration) bool {
	held, ok := s.alive(key)
	if !ok || held.owner != owner || held.token != token {
		return false
	}
	s.data.locks[key] = lease{owner, token, max(held.until, s.clock.now()+int64(ttl))}
	s.kept(key, owner, token)
	return true
}

// keptOwner is the owner of a lock that stays taken by nobody.
const keptOwner = "{kept}"

// release ends the lease or the place of an owner, and reports whether it had the lock. If keep is
// positive, the lock stays taken by nobody for that time.
func (s *server) release(key, owner string, refuse bool, keep time.Duration) bool {
	held, ok := s.alive(key)
	had := ok && held.owner == owner
	switch {
	case had && keep > 0:
		s.data.locks[key] = lease{keptOwner, held.token, s.clock.now() + int64(keep)}
		if queue := s.data.queues[key]; len(queue) > 0 {
			s.signal(queue[0], 0) // the first waiter must learn when the lock becomes free
		}
	case had:
		s.handOver(key)
	case s.data.places[owner] != 0:
		delete(s.data.places, owner)
		s.data.queues[key] = slices.DeleteFunc(s.data.queues[key], func(o string) bool { return o == owner })
	}
	if refuse {
		s.data.tombs[owner] = s.clock.now() + int64(tombstone)
	}
	return had
}

// handOver grants a lock to the first waiter, or frees it.
func (s *server) handOver(key string) {
	delete(s.data.locks, key)
	if next, left := s.nextAlive(key); next != "" {
		s.signal(next, s.grant(key, next, left))
	}
}

// alive returns the lease of a key. It deletes an expired lease, so that the lease does not come
// back when the clock is set back.
func (s *server) alive(key string) (lease, bool) {
	held, ok := s.data.locks[key]
	if ok && held.until <= s.clock.now() {
		delete(s.data.locks, key)
		return lease{}, false
	}
	return held, ok
}

// left returns the number of unexpired entries.
func (s *server) left() (locks, places int) {
	now := s.clock.now()
	for key := range s.data.locks {
		if _, ok := s.alive(key); ok {
			locks++
		}
	}
	for _, ends := range s.data.places {
		if ends > now {
			places++
		}
	}
	return locks, places
}

// remember keeps a copy of the data, and deletes the oldest copy if there are too many.
func (s *server) remember() {
	const most = 16
	s.copies = append(s.copies, s.data.clone())
	if len(s.copies) > most {
		s.copies = s.copies[1:]
	}
}
