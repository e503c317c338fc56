package redisstore

import (
	"strconv"
	"time"

	"github.com/leasewheel/leasewheel/lock"
)

// state is what Acquire puts into a lease: the texts that each of its renewals
// sends, so that they are made once.
//
// A renewal finds most leases out of the processor's caches, and fetching them
// from memory is the better part of what it costs. So the two texts lie together,
// and the lease's own strings are parts of them: comparing those compares pointers,
// and reads none of the bytes.
type state struct {
	store      *Store
	token      uint64
	key, value string // of the lock: "owner token"; see named
	metadata   string // of an exclusive lock
	owner      int32  // its length
	slot       uint16
	shared     bool // the mode is not Exclusive
	members    bool // it is Members
}

func (s *Store) newState(r *lock.Request, token uint64) *state {
	owner := named(r)
	text := make([]byte, 0, len(s.prefix)+len(r.Key)+2+len(owner)+1+20)
	text = append(text, s.prefix...)
	text = append(text, '{')
	text = append(text, r.Key...)
	text = append(text, '}')
	key := len(text)
	text = append(text, owner...)
	text = append(text, ' ')
	text = strconv.AppendUint(text, token, 10)
	all := string(text)
	st := &state{
		store: s, token: token, key: all[:key], value: all[key:], owner: int32(len(r.Owner)),
		slot: slotOf(all[:key]), shared: r.Mode != lock.Exclusive, members: r.Mode == lock.Members,
	}
	if !st.shared {
		st.metadata = r.Metadata()
	}
	return st
}

// lease returns the lease of a request that was granted.
func (s *Store) lease(r lock.Request, token uint64, sent time.Time) lock.Lease {
	st := s.newState(&r, token)
	r.Key, r.Owner = st.lock(), st.holder()
	return lock.Lease{Request: r, Token: token, Sent: sent, State: st}
}

func (st *state) lock() string   { return st.key[len(st.store.prefix)+1 : len(st.key)-1] }
func (st *state) holder() string { return st.value[:st.owner] }

// stateOf returns the state of a lease: the one that it brought along, if that was
// made of what its fields say. For that one the request was checked before.
func (s *Store) stateOf(l *lock.Lease) (*state, error) {
	if st, ok := l.State.(*state); ok && st.fits(s, l) {
		return st, checkTerms(&l.Request)
	}
	if err := check(&l.Request); err != nil {
		return nil, err
	}
	return s.newState(&l.Request, l.Token), nil
}

// fits reports whether the state was made, by this store, of what the fields of the
// lease say.
func (st *state) fits(s *Store, l *lock.Lease) bool {
	return st.store == s && st.token == l.Token && st.lock() == l.Key && st.holder() == l.Owner && st.shared == (l.Mode != lock.Exclusive) &&
		(l.Extra == nil && st.metadata == "" || st.shared || st.metadata == l.Metadata())
}
