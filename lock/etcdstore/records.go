// The records of leases, places and unanswered requests, and their removal.

package etcdstore

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
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
	moving      int64 // see beginMove; 0: no move is without an answer
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
	rec.lock, rec.place = cmp.Or(lock, rec.lock), cmp.Or(place, rec.place)
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

// known returns until when a lease is held at least, as far as this store knows, and the revision of its lock up to which
// that may still be moved to another session.
func (s *Store) known(k leaseKey) (until time.Time, moving int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rec := s.leases[k]; rec != nil {
		return rec.until, rec.moving
	}
	return time.Time{}, 0
}

func (s *Store) forget(k leaseKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.leases, k)
}

// released forgets an owner that has neither a lock nor a place, and gets none any more.
func (s *Store) released(k leaseKey) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.leases, k)
	for _, of := range s.sessions {
		of.forgetAttempt(k)
	}
}

// attempt is what was sent that may attach a lock or a place of an owner to a session. A request
// without an answer may have been executed, and may be executed later. The attempt lasts until the
// owner is released, or the store has removed what the owner may have, or the session has ended.
type attempt struct {
	calls  int       // under way
	lost   bool      // a request got no answer
	until  time.Time // a TTL after the last request; then the store removes what the owner has
	ending bool      // the removal has begun, so the owner sends nothing any more
}

// maxLost bounds the attempts of a session that wait for their removal.
const maxLost = 10_000

var errManyLost = fmt.Errorf("more than %d requests had no answer", maxLost)

// beginAttempt records that a request is about to be sent. endAttempt must follow.
func (of *session) beginAttempt(k leaseKey, until time.Time) (*attempt, error) {
	of.store.mu.Lock()
	defer of.store.mu.Unlock()
	a := of.attempts[k]
	switch {
	case a != nil && a.ending:
		return nil, errGivenUp
	case a == nil && of.lost >= maxLost:
		return nil, driver.NotSent.Error(errManyLost)
	case a == nil:
		a = new(attempt)
		of.attempts[k] = a
	}
	a.calls++
	a.until = until
	return a, nil
}

// endAttempt records the end of a request, and whether the server has answered it.
func (of *session) endAttempt(k leaseKey, a *attempt, answered bool) {
	of.store.mu.Lock()
	defer of.store.mu.Unlock()
	if of.attempts[k] != a {
		return // it was released, or the session has ended
	}
	a.calls--
	switch {
	case !answered && !a.lost:
		a.lost = true
		of.lost++
	case a.calls == 0 && !a.lost:
		delete(of.attempts, k)
	}
}

// forgetAttempt forgets what was sent for an owner. The caller holds mu.
func (of *session) forgetAttempt(k leaseKey) {
	if a := of.attempts[k]; a != nil && a.lost {
		of.lost--
	}
	delete(of.attempts, k)
}

// mayGet reports whether a request of an owner got no answer, so that the owner may get a lock or a
// place later.
func (s *Store) mayGet(k leaseKey) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, of := range s.sessions {
		if a := of.attempts[k]; a != nil && a.lost {
			return true
		}
	}
	return false
}

// removeEnded removes the locks and places of a session that nobody has renewed in time, and those
// whose requests got no answer. They would last as long as the session otherwise. What fails is tried
// again at the next renewal. A lock or a place that the same owner got meanwhile has another revision,
// and stays.
func (s *Store) removeEnded(ctx context.Context, of *session) {
	ended, lost := s.due(of, time.Now())
	s.removeRecords(ctx, ended)
	s.removeLost(ctx, of, lost)
}

// due returns the records and the attempts of a session that have ended. Nothing extends them any more.
func (s *Store) due(of *session, now time.Time) (ended map[leaseKey]*record, lost []leaseKey) {
	ended = make(map[leaseKey]*record)
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, rec := range s.leases {
		here := rec.session == of || rec.moving > 0 // a move without an answer may have brought it here
		if here && !now.Before(rec.until) && !now.Before(rec.asked) {
			rec.ending = true
			ended[k] = rec
		}
	}
	for k, a := range of.attempts {
		if rec := s.leases[k]; a.lost && a.calls == 0 && !now.Before(a.until) && (rec == nil || rec.ending) {
			a.ending = true
			lost = append(lost, k)
		}
	}
	return ended, lost
}

func (s *Store) removeRecords(ctx context.Context, ended map[leaseKey]*record) {
	for some := range slices.Chunk(slices.Collect(maps.Keys(ended)), maxReleases) {
		var ops []clientv3.Op
		for _, k := range some {
			ops = append(ops, s.removeOps(k, ended[k])...)
		}
		if _, err := s.each(ctx, ops); err != nil {
			return
		}
		s.mu.Lock()
		for _, k := range some {
			if s.leases[k] == ended[k] {
				delete(s.leases, k)
			}
		}
		s.mu.Unlock()
	}
}

// removeLost removes what owners may have got by requests without an answer.
func (s *Store) removeLost(ctx context.Context, of *session, lost []leaseKey) {
	for some := range slices.Chunk(lost, maxReleases) {
		if _, err := s.giveUp(ctx, some); err != nil {
			continue
		}
		s.mu.Lock()
		for _, k := range some {
			of.forgetAttempt(k)
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

// beginMove records that a request is about to attach a lock to another session, if the lock was last written at a
// revision. A request without an answer may be executed later, and would end the lease with a session that nobody renews.
// So a renewal that finds the lock as it was at that revision, or before, writes it.
func (s *Store) beginMove(k leaseKey, revision int64, asked time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec := s.leases[k]
	if rec == nil {
		rec = &record{asked: asked}
		s.leases[k] = rec
	}
	rec.moving = max(rec.moving, revision)
}

// endMoves records that a lock was written at a revision, so all moves of earlier revisions do nothing any more.
func (s *Store) endMoves(k leaseKey, revision int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rec := s.leases[k]; rec != nil && rec.moving < revision {
		rec.moving = 0
	}
}
