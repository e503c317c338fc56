package redisstore

import (
	"strconv"

	"github.com/leasewheel/leasewheel/lock"
)

// state is what Acquire puts into a lease: the texts that each of its renewals
// sends, so that they are made once.
type state struct {
	key   string // of the lock
	value string // "owner token"
}

func newState(key, owner string, token uint64) *state {
	return &state{key: key, value: owner + " " + strconv.FormatUint(token, 10)}
}

// stateOf returns the state of a lease: the one that it brought along, if that is
// what its fields say.
func (s *Store) stateOf(l *lock.Lease) *state {
	if st, ok := l.State.(*state); ok && st.fits(s.prefix, l) {
		return st
	}
	return newState(s.lockKey(l.Key), l.Owner, l.Token)
}

func (st *state) fits(prefix string, l *lock.Lease) bool {
	name, owner := len(prefix)+1, len(l.Owner)
	if len(st.key) != name+len(l.Key)+1 || len(st.value) <= owner+1 {
		return false
	}
	var digits [20]byte
	token := strconv.AppendUint(digits[:0], l.Token, 10)
	return st.key[:len(prefix)] == prefix && st.key[name:name+len(l.Key)] == l.Key &&
		st.value[:owner] == l.Owner && st.value[owner] == ' ' && st.value[owner+1:] == string(token)
}
