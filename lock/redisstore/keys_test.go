package redisstore

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
)

// The test tries all names of up to four bytes from the characters that have a meaning in
// keys.
func TestKeysOfDifferentLocksDiffer(t *testing.T) {
	t.Parallel()
	const alphabet = "{}:txork"
	names := []string{""}
	for from := 0; len(names[len(names)-1]) < 4; {
		to := len(names)
		for _, name := range names[from:to] {
			for _, b := range alphabet {
				names = append(names, name+string(b))
			}
		}
		from = to
	}
	for _, prefix := range []string{"lw:", ":", "x"} {
		s := &Store{prefix: prefix}
		seen := map[string]string{}
		checked := 0
		for _, name := range names {
			for _, owner := range []string{"o", "t", "x:o", ":", "o:t"} {
				r := driver.Request{Key: name, Owner: owner, TTL: ttl30}
				if check(&r, false) != nil {
					continue
				}
				checked++
				k := s.sharedKeys(name, r.Owner)
				tag := hashTag(k.lock)
				for kind, key := range append(all(k), k.records, k.members) {
					if kind != 4 {
						owner = "" // only the tombstone depends on the owner
					} else {
						owner = r.Owner
					}
					this := strings.Join([]string{name, owner, string(rune('0' + kind))}, "\xff")
					if other, ok := seen[key]; ok && other != this {
						t.Fatalf("%q and %q are both %q", this, other, key)
					}
					seen[key] = this
					if hashTag(key) != tag {
						t.Fatalf("%q and %q have different slots", k.lock, key)
					}
				}
			}
		}
		assert.Greater(t, checked, 5_000)
	}
}

// hashTag returns the part of a key that decides its slot.
func hashTag(key string) string {
	if _, rest, ok := strings.Cut(key, "{"); ok {
		if tag, _, ok := strings.Cut(rest, "}"); ok && tag != "" {
			return tag
		}
	}
	return key
}

// FuzzKeys compares the keys of two locks with each other and with a server. The locks have
// no key in common, all keys of a lock have one slot, and the server stores the keys byte
// for byte.
func FuzzKeys(f *testing.F) {
	for _, seed := range [][3]string{
		{"a", "b", "o:1"},
		{"a", "a:t", "o:1"},
		{"a", "a}:t", "o:1"},
		{"a}", "a", "o:1"},
		{"{a}", "a", "o"},
		{"{", "}", "o"},
		{"", "}a", "t"},
		{"a{b}c{d}", "b", "x:o"},
		{"\x00\xff\r\n*1\r\n$3\r\nDEL\r\n", "\x00", "\x00"},
		{"é", "e\u0301", ":"},
		{"]] return 1 --", "') redis.call('FLUSHALL", "%d %s"},
		{"a", "a}:x:o", "o}"},
		{"k", "K", "{}"},
	} {
		f.Add(seed[0], seed[1], seed[2])
	}
	s, rdb := sharedStore(f)
	f.Fuzz(func(t *testing.T, name, other, owner string) {
		r := driver.Request{Key: name, Owner: owner, TTL: ttl30}
		if check(&r, false) != nil {
			l, err := s.Acquire(t.Context(), r)
			assert.Error(t, err)
			assert.Zero(t, l)
			assert.Empty(t, keysOf(t, rdb, s.prefix), "the store sends nothing")
			return
		}
		k := all(s.keys(name, owner))
		for i, key := range k {
			assert.Equal(t, redisconn.SlotOf(k[0]), redisconn.SlotOf(key), "%q", key)
			assert.Equal(t, int64(redisconn.SlotOf(key)), keySlot(key), "%q", key)
			assert.Equal(t, i, slices.Index(k, key), "%q", key)
		}
		if otherRequest := (driver.Request{Key: other, Owner: owner, TTL: ttl30}); other != name && check(&otherRequest, false) == nil {
			for _, key := range all(s.keys(other, owner)) {
				assert.NotContains(t, k, key)
			}
		}
		l := acquire(t, s, r)
		require.ElementsMatch(t, k[:2], keysOf(t, rdb, s.prefix))
		text := l.State.(*leaseState)
		assert.Equal(t, []string{name, owner, k[0]}, []string{text.lock(), text.holder(), text.key})
		assert.Equal(t, text.value, rdb.Get(t.Context(), k[0]).Val())
		l.Unanswered = true
		require.NoError(t, s.Release(t.Context(), l))
		require.ElementsMatch(t, []string{k[1], k[4]}, keysOf(t, rdb, s.prefix))
		require.NoError(t, rdb.Unlink(t.Context(), k[1], k[4]).Err())
	})
}

// keySlot computes the slot of a key bit by bit, as the Redis Cluster specification
// describes it.
func keySlot(key string) int64 {
	var remainder uint32
	for _, b := range []byte(hashTag(key)) {
		remainder ^= uint32(b) << 8
		for range 8 {
			remainder <<= 1
			if remainder&0x10000 != 0 {
				remainder ^= 0x11021
			}
		}
	}
	return int64(remainder % 16384)
}
