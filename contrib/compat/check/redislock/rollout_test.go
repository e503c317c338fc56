package redislock

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// TestOldAndNewProcessesExcludeEachOther runs one program with the original and with this package
// in its place, beside each other, as during the rollout of a release.
func TestOldAndNewProcessesExcludeEachOther(t *testing.T) {
	programs := map[string]string{"old": build(t, false), "new": build(t, true)}
	const rounds = 1000
	rdb, key := shared.Server(t).Client(t), newKey(t)
	names := []string{"old", "new", "old", "new"}
	together(len(names), func(i int) {
		out, err := exec.CommandContext(t.Context(), programs[names[i]],
			names[i], key, strconv.Itoa(rounds), rdb.Options().Addr).CombinedOutput()
		assert.NoError(t, err, "%s", out)
	})
	ctx := t.Context()
	for _, key := range []string{key, key + ":second"} {
		counter, err := rdb.Get(ctx, key+":counter").Int()
		require.NoError(t, err)
		assert.Equal(t, len(names)*rounds*3/4, counter, "no increment is lost")
		for _, direction := range []string{"old>new", "new>old"} {
			n, err := rdb.Get(ctx, key+":"+direction).Int()
			require.NoError(t, err, direction)
			t.Log(direction, n)
			assert.Positive(t, n, direction)
		}
		assert.Zero(t, rdb.Exists(ctx, key).Val())
	}
}

// build compiles the program of testdata, with its imports changed for this package.
func build(t *testing.T, changed bool) string {
	folder := t.TempDir()
	program := filepath.Join(folder, "contender")
	args := []string{"build", "-o", program}
	if changed {
		source, err := filepath.Abs("testdata/contender/main.go")
		require.NoError(t, err)
		text, err := os.ReadFile(source)
		require.NoError(t, err)
		require.Equal(t, 1, strings.Count(string(text), strconv.Quote(theirs)))
		text = bytes.Replace(text, []byte(strconv.Quote(theirs)), []byte(strconv.Quote(ours)), 1)
		rewritten := filepath.Join(folder, "main.go")
		require.NoError(t, os.WriteFile(rewritten, text, 0o600))
		overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{source: rewritten}})
		require.NoError(t, err)
		file := filepath.Join(folder, "overlay.json")
		require.NoError(t, os.WriteFile(file, overlay, 0o600))
		args = append(args, "-overlay", file)
	}
	out, err := exec.CommandContext(t.Context(), "go", append(args, "./testdata/contender")...).CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}

// TestKeysLookTheSame compares what both libraries leave in Redis.
func TestKeysLookTheSame(t *testing.T) {
	ctx, rdb := t.Context(), shared.Server(t).Client(t)
	for _, ttl := range []time.Duration{8 * time.Second, 2500 * time.Millisecond, time.Hour} {
		key := newKey(t)
		dumps, ttls := map[string][]string{}, map[string][]time.Duration{}
		both(t, func(t *testing.T, l library) {
			look := func() {
				dumps[l.name] = append(dumps[l.name], rdb.Dump(ctx, key).Val())
				ttls[l.name] = append(ttls[l.name], rdb.PTTL(ctx, key).Val())
			}
			_, err := l.obtain(ctx, rdb, key, ttl, &options{token: "token", metadata: "first"})
			require.NoError(t, err)
			look()
			got, err := l.obtain(ctx, rdb, key, 2*ttl, &options{token: "token", metadata: "second"})
			require.NoError(t, err)
			look()
			require.NoError(t, got.refresh(ctx, ttl))
			look()
			require.NoError(t, got.Release(ctx))
		})
		assert.Equal(t, dumps["original"], dumps["ours"])
		assert.Len(t, dumps["ours"], 3)
		assert.NotContains(t, dumps["ours"], "")
		for i, want := range []time.Duration{ttl, 2 * ttl, ttl} {
			for _, l := range libraries {
				assert.LessOrEqual(t, ttls[l.name][i], want)
				assert.Greater(t, ttls[l.name][i], want-2*time.Second)
			}
		}
	}
}

// TestLocksOfSeveralKeysExcludeThoseOfTheOther is about locks that share one key.
func TestLocksOfSeveralKeysExcludeThoseOfTheOther(t *testing.T) {
	ctx, rdb := t.Context(), shared.Server(t).Client(t)
	for i, l := range libraries {
		other, a, b, c := libraries[1-i], newKey(t), newKey(t), newKey(t)
		got, err := l.obtainMulti(ctx, rdb, []string{a, b}, time.Minute, nil)
		require.NoError(t, err)
		for _, keys := range [][]string{{a}, {b}, {c, b}, {a, c}, {b, a}} {
			_, err = other.obtainMulti(ctx, rdb, keys, time.Minute, nil)
			assert.ErrorIs(t, err, other.notObtained, "%v", keys)
		}
		assert.Zero(t, rdb.Exists(ctx, c).Val())
		moved, err := other.obtainMulti(ctx, rdb, []string{b, a}, time.Minute, &options{token: got.Token()})
		require.NoError(t, err)
		require.NoError(t, got.refresh(ctx, time.Hour), "the values are the same")
		assertTTL(t, moved, time.Hour)
		require.NoError(t, moved.Release(ctx))
		assert.ErrorIs(t, got.Release(ctx), l.notHeld)
	}
}

// TestEachLibraryKnowsTokensOfTheOther moves locks between the libraries by their tokens.
func TestEachLibraryKnowsTokensOfTheOther(t *testing.T) {
	ctx, rdb := t.Context(), shared.Server(t).Client(t)
	for i, l := range libraries {
		other, key := libraries[1-i], newKey(t)
		got, err := l.obtain(ctx, rdb, key, time.Minute, nil)
		require.NoError(t, err)
		_, err = other.obtain(ctx, rdb, key, time.Minute, nil)
		assert.ErrorIs(t, err, other.notObtained)
		moved, err := other.obtain(ctx, rdb, key, time.Minute, &options{token: got.Token()})
		require.NoError(t, err)
		left, err := got.TTL(ctx)
		require.NoError(t, err)
		assert.Positive(t, left, "the value is the same")
		assert.NoError(t, moved.Release(ctx))
		assert.ErrorIs(t, got.Release(ctx), l.notHeld)
	}
}
