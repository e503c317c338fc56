package etcdstore

import (
	"context"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// leaseKey identifies a lease or a place in a queue.
type leaseKey struct{ key, owner string }

// record is what the store knows of a lease or of a place in a queue.
type record struct {
	session *session
	until   time.Time // the latest end that was promised to the holder; then the store removes it
	asked   time.Time // until when it is not removed, because its renewal has begun
	ending  bool      // its removal has begun, so nothing extends it any more

	lock, place int64 // the create revisions; 0: there is none, as far as the store knows
}

// hold records that a lock or a place of these create revisions is held until then, in a session. 0
// stands for a revision that is not known or has not changed.
func (s *Store) hold(k leaseKey, of *session, until time.Time, lock, place int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec := s.leases[k]
	if rec == nil || rec.ending {
		rec = new(record)
		s.leases[k] = rec
	}
	rec.session = of
	if until.After(rec.until) {
		rec.until = until
	}
	if lock != 0 {
		rec.lock = lock
	}
	if place != 0 {
		rec.place = place
	}
}

// touch keeps removeEnded from removing a lease whose renewal has begun. It reports whether the
// removal has not begun already.
func (s *Store) touch(l *driver.Lease, start time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec := s.leases[leaseKey{l.Key, l.Owner}]
	if rec == nil {
		return true
	}
	rec.asked = start.Add(l.TTL)
	return !rec.ending
}

// promised returns until when a lease is held at least, as far as this store knows.
func (s *Store) promised(k leaseKey) time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rec := s.leases[k]; rec != nil {
		return rec.until
	}
	return time.Time{}
}

func (s *Store) forget(k leaseKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.leases, k)
	delete(s.moves, k)
}

// removeEnded removes the locks and places of a session that nobody has renewed in time. They
// would last as long as the session otherwise. What fails is tried again at the next renewal. A lock
// or a place that the same owner got meanwhile has another revision, and stays.
func (s *Store) removeEnded(ctx context.Context, of *session) {
	now := time.Now()
	ended := make(map[leaseKey]*record)
	var keys []leaseKey
	s.mu.Lock()
	for k, rec := range s.leases {
		if rec.session == of && !now.Before(rec.until) && !now.Before(rec.asked) {
			rec.ending = true
			ended[k] = rec
			keys = append(keys, k)
		}
	}
	s.mu.Unlock()
	for len(keys) > 0 {
		some := keys[:min(len(keys), maxReleases)]
		keys = keys[len(some):]
		var ops []clientv3.Op
		for _, k := range some {
			ops = append(ops, s.removeOps(k, ended[k])...)
		}
		if _, err := s.client.Txn(ctx).Then(ops...).Commit(); err != nil {
			return
		}
		s.mu.Lock()
		for _, k := range some {
			if s.leases[k] == ended[k] {
				delete(s.leases, k)
				delete(s.moves, k)
			}
		}
		s.mu.Unlock()
	}
}

// removeOps delete the lock and the place of a record, if they are still the same. The record is
// ending, so its revisions do not change.
func (s *Store) removeOps(k leaseKey, rec *record) (ops []clientv3.Op) {
	if rec.lock != 0 {
		lock := s.lockKey(k.key)
		ops = append(ops, clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(lock), "=", rec.lock)},
			[]clientv3.Op{clientv3.OpDelete(lock), clientv3.OpDelete(s.metaKey(k.key))}, nil))
	}
	if rec.place != 0 {
		place := s.placeKey(k.key, k.owner)
		ops = append(ops, clientv3.OpTxn([]clientv3.Cmp{clientv3.Compare(clientv3.CreateRevision(place), "=", rec.place)},
			[]clientv3.Op{clientv3.OpDelete(place)}, nil))
	}
	return ops
}

// A move is a request that attaches a lease to another session. One without an answer may be executed
// later, and would end the lease with a session that nobody renews. It does nothing if the lock was
// written since, so a renewal that knows of such a move writes the lock.

// beginMove returns the number of a move that begins.
func (s *Store) beginMove(k leaseKey) uint64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.moves[k] == nil {
		s.moves[k] = make(map[uint64]struct{})
	}
	s.lastMove++
	s.moves[k][s.lastMove] = struct{}{}
	return s.lastMove
}

// endMove records that a move was answered. If it has written the lock, those that began before do
// nothing any more.
func (s *Store) endMove(k leaseKey, number uint64, written bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for n := range s.moves[k] {
		if n == number || written && n < number {
			delete(s.moves[k], n)
		}
	}
	if len(s.moves[k]) == 0 {
		delete(s.moves, k)
	}
}

// mayMove reports whether a move without an answer may still be executed.
func (s *Store) mayMove(k leaseKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.moves[k]) > 0
}
