package redisstore

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/lock"
)

// keys are those of one lock, for one owner. The name stands between the first
// brace and the last, for neither the prefix nor what follows holds any; and what
// follows tells the kinds apart. So no two of them are ever equal, whatever the
// names.
type keys struct {
	lock, token, queue, places, tombstone string
	records, members                      string // of a shared lock
}

// keys makes them all in one piece of memory.
func (s *Store) keys(name, owner string) *keys {
	const end = len(":t") // of three of them
	l := s.lockKey(name)
	n := len(l)
	all := l + ":t" + l + ":q" + l + ":w" + l + ":x:" + owner
	return &keys{
		lock:      all[:n],
		token:     all[:n+end],
		queue:     all[n+end : 2*(n+end)],
		places:    all[2*(n+end) : 3*(n+end)],
		tombstone: all[3*(n+end):],
	}
}

// sharedKeys are those of a lock in one of the shared modes.
func (s *Store) sharedKeys(name, owner string) *keys {
	k := s.keys(name, owner)
	k.records, k.members = k.lock+recordsEnd, k.lock+membersEnd
	return k
}

const (
	recordsEnd = ":r"
	membersEnd = ":k"
)

func (s *Store) lockKey(name string) string {
	return s.prefix + "{" + name + "}"
}

// checkAcquire is check for a request to the server for a lock.
func checkAcquire(r *lock.Request) error {
	if err := check(r); err != nil {
		return err
	}
	if err := checkMetadata(r); err != nil {
		return err
	}
	return checkWish(r)
}

// check refuses requests that would break the scheme of keys, or that this store
// cannot serve. The client has checked more.
func check(r *lock.Request) error {
	if err := checkKey(r.Key); err != nil {
		return err
	}
	if r.Owner == "" || strings.ContainsAny(r.Owner, "{}") {
		return errors.New("the owner must not be empty and must hold no brace")
	}
	return checkTerms(r)
}

// checkTerms checks what stands beside the names.
func checkTerms(r *lock.Request) error {
	switch {
	case r.Mode > lock.Members:
		return fmt.Errorf("%v: %w", r.Mode, errors.ErrUnsupported)
	case r.TTL < time.Millisecond:
		return fmt.Errorf("%w: %v is less than a millisecond", lock.ErrBadTTL, r.TTL)
	}
	return nil
}

// checkKey refuses the names that would empty the hash tag, so that the keys of
// one lock would be scattered over a cluster.
func checkKey(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("%w: it is empty", lock.ErrBadKey)
	case name[0] == '}':
		return fmt.Errorf("%w: it begins with '}'", lock.ErrBadKey)
	}
	return nil
}
