// The state of a lease: the texts that each renewal sends.

package redisson

import (
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
)

// leaseState is the State of a lease. It holds the texts that each renewal sends, so that they are
// made only once.
type leaseState struct {
	store    *Store
	key      string // of the request
	name     string // of the lock in Redisson: with the prefix
	secret   string // the owner of the request
	owner    string // in the form of Redisson
	token    uint64
	tokenKey string // of an RFencedLock
	reader   string // of an RReadWriteLock: the key of the owner's lease as a reader
	slot     uint16
	kind     renewKind
}

// renewKind selects the script that renews a lease.
type renewKind uint8

const (
	renewPlain renewKind = iota
	renewFenced
	renewRW
)

func (s *Store) newState(r *driver.Request, token uint64) *leaseState {
	st := &leaseState{store: s, key: r.Key, name: s.options.Prefix + r.Key, secret: r.Owner, owner: wireOwner(r.Owner), token: token}
	st.slot = redisconn.SlotOf(st.name)
	switch {
	case r.Mode != driver.Exclusive:
		st.kind, st.reader = renewRW, readerKey(st.name, st.owner)
	case s.options.Kind == KindFencedLock:
		st.kind, st.tokenKey = renewFenced, tokenKey(st.name)
	}
	return st
}

// lease returns the lease of a granted request.
func (s *Store) lease(r *driver.Request, a answer) driver.Lease {
	st := s.newState(r, a.token)
	s.redis.Hold(st.slot, r.TTL)
	return driver.Lease{Request: *r, Token: a.token, Sent: a.sent, State: st}
}

// stateOf returns the state of a lease. It reuses the State of the lease if that matches the fields.
func (s *Store) stateOf(l *driver.Lease) (*leaseState, error) {
	if st, ok := l.State.(*leaseState); ok && st.matches(s, l) {
		return st, s.checkTerms(&l.Request)
	}
	if err := s.check(&l.Request); err != nil {
		return nil, err
	}
	return s.newState(&l.Request, l.Token), nil
}

// matches reports whether this store made the state from the same fields as those of the lease.
func (st *leaseState) matches(s *Store, l *driver.Lease) bool {
	return st.store == s && st.token == l.Token && st.key == l.Key && st.secret == l.Owner && (st.kind == renewRW) == (l.Mode != driver.Exclusive)
}
