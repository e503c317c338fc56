package redisstore

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// keys are the keys of one lock and one owner. The name of the lock is the text between the
// first and the last brace, because neither the prefix nor the suffix contains a brace.
// The suffix names the kind of key. Two names therefore never share a key.
type keys struct {
	lock, token, queue, places, tombstone string
	records, members                      string // only of a shared lock
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
	recordsEnd  = ":r"
	membersEnd  = ":k"
)

func (s *Store) lockKey(name string) string {
	return s.prefix + "{" + name + "}"
}

// checkAcquire checks a request for a lock.
func checkAcquire(r *driver.Request) error {
	if err := check(r); err != nil {
		return err
	}
	if err := checkMetadata(r); err != nil {
		return err
	}
	return checkArgs(r)
}

// check refuses requests that would break the scheme of keys, and requests that this store
// cannot serve. The client has made further checks.
func check(r *driver.Request) error {
	if err := checkKey(r.Key); err != nil {
		return err
	}
	if r.Owner == "" || strings.ContainsAny(r.Owner, "{}") {
		return errors.New("the owner must not be empty and must hold no brace")
	}
	return checkTerms(r)
}

// checkTerms checks the mode and the TTL.
func checkTerms(r *driver.Request) error {
	switch {
	case r.Mode > driver.Members:
		return fmt.Errorf("%v: %w", r.Mode, errors.ErrUnsupported)
	case r.TTL < time.Millisecond:
		return fmt.Errorf("%w: %v is less than a millisecond", driver.ErrBadTTL, r.TTL)
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
