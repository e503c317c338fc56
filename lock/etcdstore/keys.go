// The keys and values in etcd.

package etcdstore

import (
	"encoding/hex"
	"strings"

	"go.etcd.io/etcd/api/v3/mvccpb"
)

// The keys of the store, after the prefix:
//
//	l/KEY        the lock: its value names the owner, its create revision is the token
//	m/KEY        the metadata of the holder
//	q/HEX/OWNER  a place in the queue of the key in hexadecimal digits; its create revision is its rank
//	t/OWNER      a tombstone: this owner was given up
//	s/KEY        the state that a holder leaves to the next one, attached to an etcd lease of its own
//
// Locks, metadata and places are attached to the etcd lease of their client.
func (s *Store) lockKey(key string) string  { return s.prefix + "l/" + key }
func (s *Store) metaKey(key string) string  { return s.prefix + "m/" + key }
func (s *Store) stateKey(key string) string { return s.prefix + "s/" + key }

func (s *Store) queueKeys(key string) string {
	return s.prefix + "q/" + hex.EncodeToString([]byte(key)) + "/"
}

func (s *Store) placeKey(key, owner string) string { return s.queueKeys(key) + owner }
func (s *Store) tombKey(owner string) string       { return s.prefix + "t/" + owner }

// mark is the beginning of all values of locks, places and states.
const mark = "leasewheel1 "

// valueOf returns the value of the lock of an owner.
func valueOf(owner string) string { return mark + owner }

// placeOf returns the value of the place of an owner.
func placeOf(owner, metadata string) string { return mark + owner + "\n" + metadata }

// parse returns the owner and the metadata of a lock or a place. It is not ok for a value that
// this package has not written.
func parse(kv *mvccpb.KeyValue) (owner, metadata string, ok bool) {
	rest, ok := strings.CutPrefix(string(kv.Value), mark)
	if !ok || kv.Lease == 0 {
		return "", "", false
	}
	owner, metadata, _ = strings.Cut(rest, "\n")
	return owner, metadata, owner != ""
}
