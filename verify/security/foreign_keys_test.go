package security

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"
)

const foreignKeys = 100_000

// foreignKeySet is a set of keys that are not of locks.
type foreignKeySet struct {
	t    *testing.T
	rdb  *redis.Client
	keys []string
}

// createForeignKeys creates keys of all types with random names. Many names resemble
// those of locks.
func createForeignKeys(t *testing.T, rdb *redis.Client) *foreignKeySet {
	f := &foreignKeySet{t: t, rdb: rdb}
	names := []string{"%s", "app:%s", "lw", "lw:%s", "lw:{%s", "lw:%s}", "{lw:%s}", "LW:{%s}", "lw::{%s}", "lw:%s:{k}", "{%s}:t", "xlw:{%s}", "lw:{%s}:x:k:1"}
	var pipe redis.Pipeliner
	for i := range foreignKeys {
		if i%1000 == 0 {
			f.send(pipe)
			pipe = rdb.Pipeline()
		}
		name := strings.ReplaceAll(names[i%len(names)], "%s", fmt.Sprintf("%x", rand.Uint64()))
		key := fmt.Sprint(name, i) // unique
		createKey(t, pipe, key, i)
		f.keys = append(f.keys, key)
	}
	f.send(pipe)
	return f
}

func createKey(t *testing.T, pipe redis.Pipeliner, key string, i int) {
	ctx, text := t.Context(), fmt.Sprint("value ", i)
	switch i % 7 {
	case 0:
		pipe.Set(ctx, key, text, 0)
	case 1:
		pipe.RPush(ctx, key, text, "k:1")
	case 2:
		pipe.HSet(ctx, key, "owner", text)
	case 3:
		pipe.SAdd(ctx, key, text, "k:1")
	case 4:
		pipe.ZAdd(ctx, key, redis.Z{Score: float64(i), Member: text})
	case 5:
		pipe.XAdd(ctx, &redis.XAddArgs{Stream: key, Values: []string{"owner", text}})
	case 6:
		pipe.Set(ctx, key, "k:1 17", 0) // the value of a lock
	}
}

func (f *foreignKeySet) send(pipe redis.Pipeliner) {
	if pipe != nil {
		_, err := pipe.Exec(f.t.Context())
		require.NoError(f.t, err)
	}
}

// digest returns a digest of all keys, values and expiries.
func (f *foreignKeySet) digest() string {
	sum := sha256.New()
	for from := 0; from < len(f.keys); from += 1000 {
		pipe := f.rdb.Pipeline()
		for _, key := range f.keys[from : from+1000] {
			pipe.Dump(f.t.Context(), key)
			pipe.PTTL(f.t.Context(), key)
		}
		answers, err := pipe.Exec(f.t.Context())
		require.NoError(f.t, err)
		for _, a := range answers {
			fmt.Fprintln(sum, a)
		}
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}
