package memstore

import (
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// maxWorkPerLock bounds the work under one lock of a state's mutex when many leases end,
// or many waiters are served, at once. A lease or a waiter counts as one, plus one per
// member.
const maxWorkPerLock = 1024

// lock returns the locked state of a key, after ending expired leases and serving
// waiters. If the key has no state, lock returns nil, or creates a state for a lease of
// the given TTL if ttl is not 0. The caller must unlock the state.
func (s *Store) lock(key string, ttl time.Duration) (k *state, now time.Time, err error) {
	for {
		k, err := s.stateOf(key, ttl)
		if k == nil {
			return nil, time.Time{}, err
		}
		if now, ok := s.lockState(k); ok {
			return k, now, nil
		}
	}
}

// stateOf returns the state of a key, which may be removed before the caller locks it.
func (s *Store) stateOf(key string, ttl time.Duration) (*state, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, driver.ErrStoreClosed
	}
	k, ok := s.keys.get(key)
	if ok || ttl == 0 {
		s.mu.Unlock()
		return k, nil
	}
	k = &state{key: key}
	now := time.Now()
	s.keys.put(key, k)
	s.timeline.schedule(k, now, ttl)
	s.tombstones.sweep(now)
	due := s.timeline.due(now)
	s.mu.Unlock()
	for _, other := range due {
		if other != nil {
			s.recheck(other)
		}
	}
	return k, nil
}

// recheck removes the state of an idle key, and schedules the next check of any other
// key. It does not wait for a state that is locked.
func (s *Store) recheck(k *state) {
	now, wait := time.Now(), shortestWait
	if k.mu.TryLock() {
		defer k.mu.Unlock()
		if k.removed {
			return
		}
		s.advance(k, now)
		if s.removeIfIdle(k) {
			return
		}
		if k.holders.n > 0 {
			wait = k.holders.ends.last().Sub(now)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if known, _ := s.keys.get(k.key); known == k && k.node.list == nil {
		s.timeline.schedule(k, now, wait)
	}
}

// removeIfIdle removes a state without holders and waiters from the store, and reports
// whether it did so. The caller holds k.mu.
func (s *Store) removeIfIdle(k *state) bool {
	if !k.idle() {
		return false
	}
	k.removed = true
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed {
		s.keys.remove(k.key)
		s.timeline.remove(k)
	}
	return true
}

// lockState locks a state, ends expired leases and serves waiters. It returns false,
// without the lock, if the state is removed.
func (s *Store) lockState(k *state) (now time.Time, ok bool) {
	k.mu.Lock()
	now = time.Now()
	for !k.removed && !s.advance(k, now) {
		k.mu.Unlock() // let other callers use the key
		k.mu.Lock()
		now = time.Now()
	}
	if k.removed {
		k.mu.Unlock()
		return now, false
	}
	return now, true
}

// unlock serves waiters from what the caller has freed, removes the state if it is idle,
// and unlocks it.
func (s *Store) unlock(k *state) {
	for !k.removed && k.head != nil && !s.advance(k, time.Now()) {
		k.mu.Unlock() // let other callers use the key
		k.mu.Lock()
	}
	if !k.removed {
		s.removeIfIdle(k)
	}
	k.mu.Unlock()
}

// advance ends expired leases and grants the lock to waiters in order, up to the first
// one that must wait. Waiters for members are served in order only where they want the
// same members. It returns false if the work exceeds maxWorkPerLock and must be
// continued. The caller holds k.mu.
func (s *Store) advance(k *state, now time.Time) bool {
	done := 0
	for h := k.holders.ends.first; h != nil && !now.Before(h.until); h = k.holders.ends.first {
		if done >= maxWorkPerLock {
			return false
		}
		done += 1 + len(h.members)
		k.drop(h)
	}
	for k.head != nil {
		if done >= maxWorkPerLock {
			return false
		}
		w := k.nextGrantable()
		if w == nil {
			break
		}
		done += 1 + len(w.claims)
		k.dequeue(w, s.grant(k, w.request, now))
		w.wake()
	}
	k.wakeHead()
	return true
}

// revokeAll ends all leases that exist when it is called, and reports whether there was
// one.
func (s *Store) revokeAll(key string) (held bool, err error) {
	var last uint64 // leases with greater tokens are newer than the call
	for {
		k, _, err := s.lock(key, 0)
		if k == nil {
			return held, err
		}
		if !held {
			last = k.lastToken
		}
		done := 0
		for h := k.holders.first; h != nil && h.token <= last && done < maxWorkPerLock; h = k.holders.first {
			done += 1 + len(h.members)
			k.drop(h)
			held = true
		}
		more := k.holders.first != nil && k.holders.first.token <= last
		s.unlock(k)
		if !held || !more {
			return held, nil
		}
	}
}

func (s *Store) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// addTombstone makes the store refuse later requests of an owner.
func (s *Store) addTombstone(owner string) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return
	}
	s.tombstones.add(owner, now)
	s.tombstones.sweep(now)
}

// hasTombstone reports whether the store refuses an owner's requests.
func (s *Store) hasTombstone(owner string, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tombstones.has(owner, now)
}
