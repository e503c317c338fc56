package redisstore

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
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

func TestKeysOfAnyBytes(t *testing.T) {
	s, rdb := sharedStore(t)
	for _, key := range []string{
		"\x00", "\x00\xff\r\n*1\r\n", "a\x00b", "a", "a:t", "a}:t", "{a}", "a{b}c{d}", "{", "{}", "a}", "é", "e\u0301", "%s\\", "'\"", " ",
		strings.Repeat("k", driver.MaxKeyLen), strings.Repeat("k", driver.MaxKeyLen-1) + "}",
	} {
		l := acquire(t, s, request(key))
		value, err := rdb.Get(t.Context(), s.prefix+"{"+key+"}").Result()
		require.NoError(t, err, "%q is stored byte for byte", key)
		assert.True(t, strings.HasPrefix(value, l.Owner+" "))
		defer func() {
			assert.Len(t, renew(t, s, l), 1)
			assert.NoError(t, s.Release(t.Context(), l), "%q is a separate lock", key)
		}()
	}
}
