// The keys of a lock, owners and channels, the state of a lease, and the checks of requests.

package redisstore

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
)

// keys are the keys of one lock and one owner. The name of the lock is the text between the
// first and the last brace, because neither the prefix nor the suffix contains a brace.
// The suffix names the kind of key. Two names therefore never share a key.
type keys struct {
	lock, token, queue, places, tombstone string
	records, members                      string // only of a shared lock
	state, metadata                       string // only of an exclusive lock, and not of each call
}

// keys returns the keys of an exclusive lock.
func (s *Store) keys(name, owner string) *keys {
	k := new(keys)
	s.setKeys(k, name, owner)
	return k
}

// setKeys sets the keys of an exclusive lock. They are parts of one string, which costs one
// allocation.
func (s *Store) setKeys(k *keys, name, owner string) {
	const end = len(":t") // the suffixes :q and :w are as long
	p := s.prefix
	all := p + "{" + name + "}:t" + p + "{" + name + "}:q" + p + "{" + name + "}:w" + p + "{" + name + "}:x:" + owner
	n := len(p) + len(name) + len("{}")
	k.lock = all[:n]
	k.token = all[:n+end]
	k.queue = all[n+end : 2*(n+end)]
	k.places = all[2*(n+end) : 3*(n+end)]
	k.tombstone = all[3*(n+end):]
}

// sharedKeys returns the keys of a lock in one of the shared modes.
func (s *Store) sharedKeys(name, owner string) *keys {
	k := s.keys(name, owner)
	k.records, k.members = k.lock+recordsEnd, k.lock+membersEnd
	return k
}

const (
	queueEnd    = ":q"
	metadataEnd = ":m"
	stateEnd    = ":s"
	recordsEnd  = ":r"
	membersEnd  = ":k"
)

func (s *Store) lockKey(name string) string {
	return s.prefix + "{" + name + "}"
}

// The scripts get the metadata of an exclusive lock as a part of the owner:
// "owner{metadata", in base64. Locks without metadata therefore pay nothing, and the
// scripts need not know about metadata. A lock that is handed over carries its metadata; no
// second request is needed.
// Owners contain no brace. A dot after the brace means to queue.lua that the owner asks for the
// state of the key.
//
// A holder that changes its metadata keeps that owner, because renewals and releases that
// are under way name it. The new metadata are in a key of their own, with the token of the
// holder.

const (
	metadataMark = "{"
	statefulMark = "." // base64 has no dot

	// yieldsMark ends the name of an owner that yields. Scripts send its client a message about the first waiter.
	yieldsMark = "!"
)

// wireOwner returns the owner of a request in the form that the scripts get.
func wireOwner(r *driver.Request) string {
	owner := r.Owner
	if r.Yields() {
		owner += yieldsMark
	}
	if r.Mode != driver.Exclusive || r.Attrs == nil || r.Attrs.Metadata == "" && !r.Attrs.Stateful {
		return owner
	}
	mark := metadataMark
	if r.Attrs.Stateful {
		mark += statefulMark
	}
	return owner + mark + base64.RawURLEncoding.EncodeToString([]byte(r.Attrs.Metadata))
}

// metadataOf returns the metadata in an owner that wireOwner made.
func metadataOf(name string) string {
	_, text, _ := strings.Cut(name, metadataMark)
	metadata, err := base64.RawURLEncoding.DecodeString(strings.TrimPrefix(text, statefulMark))
	if err != nil {
		return ""
	}
	return string(metadata)
}

// clientNameOf returns the name of the client in an owner that wireOwner made.
func clientNameOf(name string) string {
	owner, _, _ := strings.Cut(name, metadataMark)
	return driver.ClientName(owner)
}

// check refuses requests that would break the scheme of keys, and requests that this store
// cannot serve. The client has made further checks. acquires reports that the request is one for a lock.
func check(r *driver.Request, acquires bool) error {
	switch {
	case r.Key == "" || r.Key[0] == '}':
		return checkKey(r.Key)
	case r.Owner == "" || strings.ContainsAny(r.Owner, "{}"):
		return errors.New("the owner must not be empty and must hold no brace")
	case r.Mode > driver.Members:
		return fmt.Errorf("%v: %w", r.Mode, errors.ErrUnsupported)
	case r.TTL < time.Millisecond:
		return fmt.Errorf("%w: %v is less than a millisecond", driver.ErrBadTTL, r.TTL)
	case !acquires:
	case r.Attrs != nil && len(r.Attrs.Metadata) > driver.MaxMetadataLen:
		return fmt.Errorf("the metadata are %d bytes long, the limit is %d", len(r.Attrs.Metadata), driver.MaxMetadataLen)
	case r.Mode != driver.Exclusive:
		return checkArgs(r)
	}
	return nil
}

// checkKey refuses names that would make the hash tag empty. A cluster would then spread the
// keys of one lock over several slots.
func checkKey(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: it is empty", driver.ErrBadKey)
	case name[0] == '}':
		return fmt.Errorf("%w: it begins with '}'", driver.ErrBadKey)
	}
	return nil
}

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
	metadata   string // only of an exclusive lock, as stateful
	ownerLen   int32
	slot       uint16
	shared     bool // the mode is not Exclusive
	members    bool // the mode is Members
	stateful   bool
	yields     bool
}

func (s *Store) newState(r *driver.Request, token uint64) *leaseState {
	var digits [20]byte
	all := s.prefix + "{" + r.Key + "}" + wireOwner(r) + " " + string(strconv.AppendUint(digits[:0], token, 10))
	key := len(s.prefix) + len(r.Key) + len("{}")
	st := &leaseState{
		store: s, token: token, key: all[:key], value: all[key:], ownerLen: int32(len(r.Owner)),
		shared: r.Mode != driver.Exclusive, members: r.Mode == driver.Members, yields: r.Yields(),
	}
	if s.redis.IsCluster() {
		st.slot = redisconn.SlotOf(st.key)
	}
	if !st.shared && r.Attrs != nil {
		st.metadata, st.stateful = r.Metadata(), r.Stateful()
	}
	return st
}

// lease returns the lease of a granted request.
func (s *Store) lease(r driver.Request, token uint64, sent time.Time) driver.Lease {
	st := s.newState(&r, token)
	r.Key, r.Owner = st.lock(), st.holder()
	s.redis.Hold(st.slot, r.TTL)
	return driver.Lease{Request: r, Token: token, Sent: sent, State: st}
}

// hasMark reports whether value has a metadataMark.
func (st *leaseState) hasMark() bool { return st.metadata != "" || st.stateful }

func (st *leaseState) lock() string   { return st.key[len(st.store.prefix)+1 : len(st.key)-1] }
func (st *leaseState) holder() string { return st.value[:st.ownerLen] }

// stateOf returns the state of a lease. It reuses the State of the lease if this store has made that from the same
// fields. The request was then checked before, except for its mode and TTL. Otherwise stateOf
// checks the request and makes a new state.
func (s *Store) stateOf(l *driver.Lease) (*leaseState, error) {
	if st, ok := l.State.(*leaseState); ok && st.store == s && st.token == l.Token && st.lock() == l.Key && st.holder() == l.Owner &&
		st.shared == (l.Mode != driver.Exclusive) && st.yields == l.Yields() &&
		(l.Attrs == nil && st.metadata == "" && !st.stateful || st.shared || st.metadata == l.Metadata() && st.stateful == l.Stateful()) &&
		l.Mode <= driver.Members && l.TTL >= time.Millisecond {
		return st, nil
	}
	if err := check(&l.Request, false); err != nil {
		return nil, err
	}
	return s.newState(&l.Request, l.Token), nil
}
