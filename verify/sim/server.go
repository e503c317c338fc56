package sim

import (
	"maps"
	"slices"
	"time"
)

// server is what all clients ask: it keeps leases by the protocol of this module,
// each step atomically. The world's mu guards it.
type server struct {
	clock  serverClock
	data   data
	copies []data // older states, the latest last
	grants func(key, owner string, token uint64)
	kept   func(key string, token uint64) // the lease has its full TTL again
	signal func(owner string, token uint64)
}

// data is what a server can lose.
type data struct {
	locks  map[string]lease
	tokens map[string]memory   // key → the last token
	queues map[string][]string // key → owners that wait
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

// serverClock runs at a rate of its own, and can be stepped.
type serverClock struct {
	start time.Time
	rate  float64
	step  time.Duration
}

// now is in nanoseconds since 1970, as the server believes.
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

// answer is that to an acquire.
type answer struct {
	verdict   verdict
	token     uint64        // granted: the fencing token; taken: no later grant has one that is lower
	expiresIn time.Duration // taken: what is left of the lease
	head      bool          // taken: the owner is the first of the queue
}

type verdict uint8

const (
	refused verdict = iota
	taken
	granted
)

// acquire tries, enters the queue, or keeps a place in it, which lasts as long as
// place says; 0 is to try.
func (s *server) acquire(key, owner string, ttl, place time.Duration) answer {
	now := s.clock.now()
	if s.data.tombs[owner] > now {
		return answer{verdict: refused}
	}
	if held, ok := s.alive(key); ok && held.owner == owner {
		s.data.locks[key] = lease{owner, held.token, now + int64(ttl)}
		s.kept(key, held.token)
		return answer{verdict: granted, token: held.token}
	} else if !ok {
		heir, left := s.nextAlive(key)
		if heir == "" || heir == owner {
			return answer{verdict: granted, token: s.grant(key, owner, ttl)}
		}
		s.signal(heir, s.grant(key, heir, left))
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

// grant gives a lock that is free to an owner and returns its token.
func (s *server) grant(key, owner string, px time.Duration) uint64 {
	now := s.clock.now()
	token := uint64(now / 1000)
	if last := s.data.tokens[key]; last.until > now {
		token = max(token, last.token+1)
	}
	s.data.tokens[key] = memory{token, int64(token)*1000 + int64(tokenMemory)}
	s.data.locks[key] = lease{owner, token, now + int64(px)}
	s.grants(key, owner, token)
	return token
}

// nextAlive takes the first owner with a place out of a queue, with all before it.
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

// renew gives a lease its full TTL again if it is held by that owner and token.
func (s *server) renew(key, owner string, token uint64, ttl time.Duration) bool {
	held, ok := s.alive(key)
	if !ok || held.owner != owner || held.token != token {
		return false
	}
	s.data.locks[key] = lease{owner, token, s.clock.now() + int64(ttl)}
	s.kept(key, token)
	return true
}

// release ends what an owner has, and reports whether that was the lock.
func (s *server) release(key, owner string, refuse bool) bool {
	held, ok := s.alive(key)
	had := ok && held.owner == owner
	if had {
		s.handOver(key)
	} else if s.data.places[owner] != 0 {
		delete(s.data.places, owner)
		s.data.queues[key] = slices.DeleteFunc(s.data.queues[key], func(o string) bool { return o == owner })
	}
	if refuse {
		s.data.tombs[owner] = s.clock.now() + int64(tombstone)
	}
	return had
}

// handOver passes a lock on to the first that waits, or frees it.
func (s *server) handOver(key string) {
	delete(s.data.locks, key)
	if heir, left := s.nextAlive(key); heir != "" {
		s.signal(heir, s.grant(key, heir, left))
	}
}

// alive returns the lease of a key. One that has expired is gone for ever, even if the
// clock is set back.
func (s *server) alive(key string) (lease, bool) {
	held, ok := s.data.locks[key]
	if ok && held.until <= s.clock.now() {
		delete(s.data.locks, key)
		return lease{}, false
	}
	return held, ok
}

// left counts what has not expired.
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

// remember keeps a copy of the data, of which the last few are kept.
func (s *server) remember() {
	const most = 16
	s.copies = append(s.copies, s.data.clone())
	if len(s.copies) > most {
		s.copies = s.copies[1:]
	}
}
