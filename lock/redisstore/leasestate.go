package redisstore

import (
	"strconv"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
)

// leaseState is the State of a lease. It holds the texts that each renewal sends, so that
// they are made only once.
//
// During a renewal most leases are not in the processor's caches, and loading them from
// memory is most of the cost. Both texts are therefore parts of one string, and the Key
// and Owner of the lease are parts of it too. Comparing equal pointers reads no bytes.
type leaseState struct {
	store      *Store
	token      uint64
	key, value string // the key of the lock and its value "owner token"; see wireOwner
	metadata   string // only of an exclusive lock
	ownerLen   int32
	slot       uint16
	shared     bool // the mode is not Exclusive
	members    bool // the mode is Members
}

func (s *Store) newState(r *driver.Request, token uint64) *leaseState {
	var digits [20]byte
	all := s.prefix + "{" + r.Key + "}" + wireOwner(r) + " " + string(strconv.AppendUint(digits[:0], token, 10))
	key := len(s.prefix) + len(r.Key) + len("{}")
	st := &leaseState{
		store: s, token: token, key: all[:key], value: all[key:], ownerLen: int32(len(r.Owner)),
		slot: redisconn.SlotOf(all[:key]), shared: r.Mode != driver.Exclusive, members: r.Mode == driver.Members,
	}
	if !st.shared {
		st.metadata = r.Metadata()
	}
	return st
}

// lease returns the lease of a granted request.
func (s *Store) lease(r driver.Request, token uint64, sent time.Time) driver.Lease {
	st := s.newState(&r, token)
	r.Key, r.Owner = st.lock(), st.holder()
	return driver.Lease{Request: r, Token: token, Sent: sent, State: st}
}

func (st *leaseState) lock() string   { return st.key[len(st.store.prefix)+1 : len(st.key)-1] }
func (st *leaseState) holder() string { return st.value[:st.ownerLen] }

// stateOf returns the state of a lease. It reuses the State of the lease if that matches the
// fields. The request was then checked before, except for its terms. Otherwise stateOf
// checks the request and makes a new state.
func (s *Store) stateOf(l *driver.Lease) (*leaseState, error) {
	if st, ok := l.State.(*leaseState); ok && st.matches(s, l) {
		return st, checkTerms(&l.Request)
	}
	if err := check(&l.Request); err != nil {
		return nil, err
	}
	return s.newState(&l.Request, l.Token), nil
}

// matches reports whether this store made the state from the same fields as those of the
// lease.
func (st *leaseState) matches(s *Store, l *driver.Lease) bool {
	return st.store == s && st.token == l.Token && st.lock() == l.Key && st.holder() == l.Owner && st.shared == (l.Mode != driver.Exclusive) &&
		(l.Attrs == nil && st.metadata == "" || st.shared || st.metadata == l.Metadata())
}
