// The names of keys, channels and owners in Redisson.

package redisson

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strconv"
	"strings"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
)

// prefixed returns a name that Redisson derives by a prefix: "prefix:{name}", or "prefix:name" if
// the name contains a brace.
func prefixed(prefix, name string) string {
	if strings.Contains(name, "{") {
		return prefix + ":" + name
	}
	return prefix + ":{" + name + "}"
}

// The channels and keys that Redisson derives from the name of an object.
func lockChannel(name string) string { return prefixed("redisson_lock__channel", name) }
func rwChannel(name string) string   { return prefixed("redisson_rwlock", name) }
func tokenKey(name string) string    { return prefixed("redisson_lock_token", name) }
func queueKey(name string) string    { return prefixed("redisson_lock_queue", name) }
func placesKey(name string) string   { return prefixed("redisson_lock_timeout", name) }

// readerPrefix and readerKey name the leases of the readers of an RReadWriteLock.
func readerPrefix(name string) string {
	if strings.Contains(name, "{") {
		return name + ":"
	}
	return "{" + name + "}:"
}

func readerKey(name, owner string) string { return readerPrefix(name) + owner + ":rwlock_timeout:1" }

// Keys that Redisson does not know.
func tombstoneKey(name, owner string) string {
	return prefixed("leasewheel_tombstone", name) + ":" + owner
}

func metadataPrefix(name string) string { return prefixed("leasewheel_metadata", name) + ":" }

// wireOwner returns the owner in the form of Redisson: "uuid:number". It is a digest, so it always
// is the same for an owner. All owners of a client have the same uuid, which shows the ClientName.
func wireOwner(owner string) string {
	client := owner
	if colon := strings.LastIndexByte(owner, ':'); colon >= 0 {
		client = owner[:colon]
	}
	id, all := sha256.Sum256([]byte(client)), sha256.Sum256([]byte(owner))
	var text [36 + 1 + 20]byte
	at := 0
	for i, part := range [][]byte{id[:4], id[4:6], id[6:8], id[8:10], id[10:16]} {
		if i > 0 {
			text[at] = '-'
			at++
		}
		at += hex.Encode(text[at:], part)
	}
	text[at] = ':'
	number := binary.BigEndian.Uint64(all[:]) >> 1 // a positive long of Java
	return string(strconv.AppendUint(text[:at+1], number, 10))
}

// clientName returns the ClientName of an owner in the form of Redisson: the first 16 digits of its
// uuid.
func clientName(owner string) string {
	id, _, _ := strings.Cut(owner, ":")
	id = strings.ReplaceAll(id, "-", "")
	return id[:min(len(id), 16)]
}

// nameOf returns the name of the lock with the prefix. It refuses names whose keys a cluster would put
// into different slots.
func (s *Store) nameOf(key string) (string, error) {
	name := s.options.Prefix + key
	switch {
	case key == "":
		return "", fmt.Errorf("%w: it is empty", driver.ErrBadKey)
	case s.redis.IsCluster() && redisconn.SlotOf(name) != redisconn.SlotOf(tokenKey(name)):
		return "", fmt.Errorf("%w: its braces spread the keys of Redisson over several slots of the cluster", driver.ErrBadKey)
	}
	return name, nil
}
