package zkstore

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"
)

// leaseKey identifies a lease or a place in a queue.
type leaseKey struct{ key, owner string }

// record is what the store knows of a lease or of a place in a queue.
type record struct {
	path    string
	token   uint64 // 0 until the owner has the lock
	session int64
	until   time.Time // the latest end that was promised to the holder; then the store removes it
	asked   time.Time // until when it is not removed, because its renewal has begun
}

func (r *record) end() time.Time {
	if r.asked.After(r.until) {
		return r.asked
	}
	return r.until
}

const (
	tombstoneTime = time.Minute
	removePause   = 200 * time.Millisecond // after a removal that failed
)

// hold records that a node is held until then.
func (s *Store) hold(k leaseKey, path string, until time.Time) {
	session := s.link.current()
	s.mu.Lock()
	defer s.mu.Unlock()
	rec := s.records[k]
	if rec == nil || rec.path != path {
		if rec != nil {
			s.dying[rec.path] = rec.session // an owner has one node
		}
		rec = &record{path: path, session: session}
		s.records[k] = rec
	}
	if until.After(rec.until) {
		rec.until = until
	}
	s.wakeSweeper()
}

// granted records that the owner of a node has the lock. It reports whether the record is there.
func (s *Store) granted(k leaseKey, path string, token uint64, session int64, until time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec := s.records[k]
	if rec == nil || rec.path != path {
		return false
	}
	if session != s.link.current() {
		return false // sessionEnded has forgotten the records of the session, or will
	}
	rec.token, rec.session = token, session
	if until.After(rec.until) {
		rec.until = until
	}
	return true
}

// renewed extends a lease whose node was there in a session. It reports whether the store holds it.
func (s *Store) renewed(k leaseKey, path string, session int64, until time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec := s.records[k]
	if rec == nil || rec.path != path || rec.session != session {
		return false
	}
	if until.After(rec.until) {
		rec.until = until
	}
	return true
}

// touch returns a copy of a record, and keeps the lease from being removed until then, because its
// renewal begins. It is not ok if the store does not hold the lease.
func (s *Store) touch(k leaseKey, token uint64, until time.Time) (record, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec := s.records[k]
	if rec == nil || token != 0 && rec.token != token {
		return record{}, false
	}
	if until.After(rec.asked) {
		rec.asked = until
	}
	return *rec, true
}

func (s *Store) forget(k leaseKey, path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rec := s.records[k]; rec != nil && rec.path == path {
		delete(s.records, k)
	}
}

// isDying reports whether a node is being removed.
func (s *Store) isDying(path string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, dying := s.dying[path]
	return dying
}

// sessionEnded forgets a session that has expired. Its nodes are gone.
func (s *Store) sessionEnded(session int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, rec := range s.records {
		if rec.session == session {
			delete(s.records, k)
		}
	}
	for path, of := range s.dying {
		if of == session {
			delete(s.dying, path)
		}
	}
}

// giveUp records that an owner gets nothing any more.
func (s *Store) giveUp(owner string) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.givenUp[owner] = now.Add(tombstoneTime)
	s.wakeSweeper()
}

func (s *Store) isGivenUp(owner string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	until, ok := s.givenUp[owner]
	return ok && time.Now().Before(until)
}

// wakeSweeper makes the sweeper look again. mu is locked.
func (s *Store) wakeSweeper() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// sweep removes the nodes of leases and places that nobody has renewed in time. They would last as
// long as the session otherwise. It returns when the store is closed.
func (s *Store) sweep() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-s.wake:
		case <-timer.C:
		}
		paths, next := s.due(time.Now())
		for _, path := range paths {
			bounded, cancel := context.WithTimeout(s.ctx, closeTimeout)
			err := s.remove(bounded, path)
			cancel()
			if err != nil && !errors.Is(err, zk.ErrNoNode) {
				next = min(next, removePause)
				break
			}
			s.mu.Lock()
			delete(s.dying, path)
			s.mu.Unlock()
		}
		timer.Reset(next)
	}
}

// due moves the records that have ended to dying, and returns the paths of those and the time until
// the next end.
func (s *Store) due(now time.Time) (paths []string, next time.Duration) {
	next = tombstoneTime
	s.mu.Lock()
	defer s.mu.Unlock()
	for k, rec := range s.records {
		left := rec.end().Sub(now)
		if left <= 0 {
			s.dying[rec.path] = rec.session
			delete(s.records, k)
			continue
		}
		next = min(next, left)
	}
	for owner, until := range s.givenUp {
		if !now.Before(until) {
			delete(s.givenUp, owner)
		}
	}
	for path := range s.dying {
		paths = append(paths, path)
	}
	return paths, next
}
