// The records of leases and places, and the removal of those that have ended.

package zkstore

import (
	"context"
	"errors"
	"time"

	"github.com/go-zookeeper/zk"

	"github.com/leasewheel/leasewheel/internal/basic"
)

// leaseKey identifies a lease or a place in a queue.
type leaseKey struct{ key, owner string }

// record is what the store knows of the node of a lease or of a place in a queue.
type record struct {
	leaseKey
	path    string
	client  *client
	token   uint64 // 0 until the owner has the lock
	session int64
	until   time.Time // the latest end that was promised to the holder; then the store removes it
	asked   time.Time // until when it is not removed, because its renewal has begun
	dying   bool      // it is being removed, and nothing is granted with it
}

func (r *record) end() time.Time {
	if r.asked.After(r.until) {
		return r.asked
	}
	return r.until
}

// extend moves the end that was promised to the holder, never back.
func (r *record) extend(until time.Time) {
	if until.After(r.until) {
		r.until = until
	}
}

const (
	tombstoneTime = time.Minute
	removePause   = 200 * time.Millisecond // after a removal that failed
)

// add adds a record. mu is locked.
func (s *client) add(k leaseKey, path string, session int64) *record {
	rec := &record{leaseKey: k, path: path, client: s, session: session}
	s.paths[path] = rec
	s.bytes += len(path)
	return rec
}

// kill has the sweeper remove a node. mu is locked.
func (s *Store) kill(rec *record) {
	rec.dying = true
	if s.records[rec.leaseKey] == rec {
		delete(s.records, rec.leaseKey)
	}
}

// drop forgets a node. mu is locked.
func (s *Store) drop(rec *record) {
	if s.paths[rec.path] == rec {
		s.kill(rec)
		rec.client.bytes -= len(rec.path)
		delete(s.paths, rec.path)
	}
}

// hold records that a node is held until then. It reports false for a node that is being removed. That
// of an owner which was given up is removed at once.
func (s *client) hold(k leaseKey, path string, until time.Time) bool {
	session := s.link.current()
	s.mu.Lock()
	defer s.mu.Unlock()
	defer s.wakeSweeper()
	rec := s.paths[path]
	if rec == nil {
		rec = s.add(k, path, session)
	}
	if until, ok := s.givenUp[k.owner]; ok && time.Now().Before(until) {
		s.kill(rec)
	}
	if rec.dying {
		return false
	}
	if old := s.records[k]; old != nil && old != rec {
		s.kill(old) // an owner has one node
	}
	s.records[k] = rec
	rec.extend(until)
	return true
}

// creation is what the store knows of the requests that create a node for an owner.
type creation struct {
	client   *client
	bytes    int           // of the path of a node
	until    time.Time     // the latest end of their leases
	open     int           // how many have not ended, and may not even have been sent
	ended    chan struct{} // is closed when open is 0
	answered bool          // all of them
}

// willCreate records that a node for an owner is about to be created, for a lease that ends then at
// the latest. If no answer comes, the sweeper looks for the node. It reports false if the session has
// no room for a path of this length.
func (s *client) willCreate(k leaseKey, bytes int, until time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.creations[k]
	switch {
	case c == nil && s.bytes+bytes > maxBytes:
		return false
	case c == nil:
		c = &creation{client: s, bytes: bytes, ended: make(chan struct{}), answered: true}
		s.creations[k] = c
		s.bytes += bytes
	case c.open == 0:
		c.ended = make(chan struct{})
	}
	c.open++
	if until.After(c.until) {
		c.until = until
	}
	return true
}

// created records that a request of a willCreate has ended, and whether the server has answered it.
func (s *Store) created(k leaseKey, answered bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.creations[k]
	c.open--
	c.answered = c.answered && answered
	switch {
	case c.open > 0:
		return
	case c.answered:
		s.dropCreation(k)
	}
	close(c.ended)
	s.wakeSweeper()
}

// dropCreation forgets the creations for an owner. mu is locked.
func (s *Store) dropCreation(k leaseKey) {
	c := s.creations[k]
	c.client.bytes -= c.bytes
	delete(s.creations, k)
}

// settle returns when no creation for an owner is under way, or the cause of ctx. A creation may be
// sent after later requests, and would leave a node behind that these have not seen.
func (s *Store) settle(ctx context.Context, k leaseKey) error {
	s.mu.Lock()
	c := s.creations[k]
	if c == nil || c.open == 0 {
		s.mu.Unlock()
		return nil
	}
	ended := c.ended
	s.mu.Unlock()
	return basic.Await(ctx, ended)
}

// recorded returns the record of a node, nil if there is none or it is being removed. mu is locked.
func (s *Store) recorded(path string) *record {
	if rec := s.paths[path]; rec != nil && !rec.dying {
		return rec
	}
	return nil
}

// granted records that the owner of a node has the lock. It reports whether the record is there.
func (s *client) granted(path string, token uint64, session int64, until time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec := s.recorded(path)
	if rec == nil || session != s.link.current() { // sessionEnded has forgotten the records of another session, or will
		return false
	}
	rec.token, rec.session = token, session
	rec.extend(until)
	return true
}

// renewed extends a lease whose node was there in a session. It reports whether the store holds it.
func (s *Store) renewed(path string, session int64, until time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	rec := s.recorded(path)
	if rec == nil || rec.session != session {
		return false
	}
	rec.extend(until)
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

func (s *Store) forget(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rec := s.recorded(path); rec != nil {
		s.drop(rec)
	}
}

// sessionEnded forgets a session that has expired. Its nodes are gone.
func (s *Store) sessionEnded(session int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rec := range s.paths {
		if rec.session == session {
			s.drop(rec)
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

// sweep removes the nodes of leases and places that nobody has renewed in time, and those whose
// creation got no answer. They would last as long as the session otherwise. It returns when the store
// is closed.
func (s *Store) sweep() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-s.calls.Ctx.Done():
			return
		case <-s.wake:
		case <-timer.C:
		}
		dying, lost, next := s.due(time.Now())
		if !s.removeAll(dying) || !s.removeUnanswered(lost) {
			next = min(next, removePause)
		}
		timer.Reset(next)
	}
}

// removeAll removes nodes. It reports false after a failure, which ends the removals of a client.
func (s *Store) removeAll(dying []*record) bool {
	failed := make(map[*client]bool)
	for _, rec := range dying {
		if failed[rec.client] {
			continue
		}
		bounded, cancel := context.WithTimeout(s.calls.Ctx, closeTimeout)
		err := rec.client.remove(bounded, rec.path)
		cancel()
		if err != nil && !errors.Is(err, zk.ErrNoNode) {
			failed[rec.client] = true
			continue
		}
		s.mu.Lock()
		s.drop(rec)
		s.mu.Unlock()
	}
	return len(failed) == 0
}

// removeUnanswered removes the nodes of owners whose creations got no answer. The requests of a
// session are executed in order, and a new leader decides on all earlier ones first, so none of these
// creations is executed later. It reports false after the first failure.
func (s *Store) removeUnanswered(lost map[leaseKey]*creation) bool {
	for k, c := range lost {
		dying, err := c.client.unrecorded(k)
		if err != nil || !s.removeAll(dying) {
			return false
		}
		s.mu.Lock()
		if s.creations[k] == c && c.open == 0 {
			s.dropCreation(k)
		}
		s.mu.Unlock()
	}
	return true
}

// unrecorded returns the nodes of an owner that are not recorded as its lease or place. They are to be removed.
func (s *client) unrecorded(k leaseKey) (dying []*record, err error) {
	ctx, cancel := context.WithTimeout(s.calls.Ctx, closeTimeout)
	defer cancel()
	if err := s.sync(ctx, s.lockPath(k.key)); err != nil {
		return nil, err
	}
	all, _, err := s.nodes(ctx, k.key)
	session := s.link.current()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, n := range all {
		path := s.lockPath(k.key) + "/" + n.name
		if n.owner != k.owner || s.recorded(path) != nil {
			continue
		}
		rec := s.paths[path]
		if rec == nil {
			rec = s.add(k, path, session)
			s.kill(rec)
		}
		dying = append(dying, rec)
	}
	return dying, err
}

// due returns the nodes that are to be removed, such as those whose leases have ended, the creations without
// an answer whose leases have ended, and the time until the next end.
func (s *Store) due(now time.Time) (dying []*record, lost map[leaseKey]*creation, next time.Duration) {
	next, lost = tombstoneTime, make(map[leaseKey]*creation)
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, rec := range s.paths {
		if left := rec.end().Sub(now); !rec.dying && left > 0 {
			next = min(next, left)
			continue
		}
		s.kill(rec)
		dying = append(dying, rec)
	}
	for k, c := range s.creations {
		switch left := c.until.Sub(now); {
		case c.open > 0: // its end wakes the sweeper
		case left > 0:
			next = min(next, left)
		default:
			lost[k] = c
		}
	}
	for owner, until := range s.givenUp {
		if !now.Before(until) {
			delete(s.givenUp, owner)
		}
	}
	return dying, lost, next
}
