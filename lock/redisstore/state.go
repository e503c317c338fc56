package redisstore

import (
	"strconv"

	"github.com/leasewheel/leasewheel/lock"
)

// state is what Acquire puts into a lease: the texts that each of its renewals
// sends, so that they are made once, and what they were made of.
//
// A renewal finds most leases out of the processor's caches, and fetching them
// from memory is the better part of what it costs. So the two texts lie together,
// and the others are the very strings of the lease: comparing those compares
// pointers, and reads none of the bytes.
type state struct {
	prefix, name, owner string
	token               uint64
	key, value          string // of the lock: "owner token"
	slot                uint16
}

func (s *Store) newState(name, owner string, token uint64) *state {
	text := make([]byte, 0, len(s.prefix)+len(name)+2+len(owner)+1+20)
	text = append(text, s.prefix...)
	text = append(text, '{')
	text = append(text, name...)
	text = append(text, '}')
	key := len(text)
	text = append(text, owner...)
	text = append(text, ' ')
	text = strconv.AppendUint(text, token, 10)
	all := string(text)
	return &state{prefix: s.prefix, name: name, owner: owner, token: token, key: all[:key], value: all[key:], slot: slotOf(all[:key])}
}

// stateOf returns the state of a lease: the one that it brought along, if that was
// made of what its fields say. For that one the request was checked before.
func (s *Store) stateOf(l *lock.Lease) (*state, error) {
	if st, ok := l.State.(*state); ok && st.fits(s.prefix, l) {
		return st, checkTerms(&l.Request)
	}
	if err := check(&l.Request); err != nil {
		return nil, err
	}
	return s.newState(l.Key, l.Owner, l.Token), nil
}

func (st *state) fits(prefix string, l *lock.Lease) bool {
	return st.token == l.Token && st.name == l.Key && st.owner == l.Owner && st.prefix == prefix
}
