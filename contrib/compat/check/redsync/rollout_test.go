package redsync

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
	t.Parallel()
	programs := map[string]string{"old": build(t, false), "new": build(t, true)}
	for _, c := range []struct {
		name            string
		servers, rounds int
	}{
		{"one server", 1, 1000},
		{"a majority of three", 3, 250},
	} {
		t.Run(c.name, func(t *testing.T) {
			servers, key := clients(t, c.servers), newKey(t)
			var addrs, names []string
			for _, s := range servers {
				addrs = append(addrs, s.Options().Addr)
			}
			names = append(names, "old", "new", "old", "new")
			together(len(names), func(i int) {
				args := append([]string{names[i], key, strconv.Itoa(c.rounds)}, addrs...)
				out, err := exec.CommandContext(t.Context(), programs[names[i]], args...).CombinedOutput()
				assert.NoError(t, err, "%s", out)
			})
			ctx := t.Context()
			counter, err := servers[0].Get(ctx, key+":counter").Int()
			require.NoError(t, err)
			assert.Equal(t, len(names)*c.rounds, counter, "no increment is lost")
			for _, direction := range []string{"old>new", "new>old"} {
				n, err := servers[0].Get(ctx, key+":"+direction).Int()
				require.NoError(t, err, direction)
				t.Log(direction, n)
				assert.Positive(t, n, direction)
			}
			for i, v := range values(t, servers, key) {
				assert.Empty(t, v, "server %d", i)
			}
		})
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
		require.Equal(t, 3, strings.Count(string(text), strconv.Quote(theirs)[:len(theirs)+1]))
		text = bytes.ReplaceAll(text, []byte(theirs), []byte(ours))
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
	servers := clients(t, 3)
	for _, d := range []time.Duration{8 * time.Second, 2500 * time.Millisecond, time.Hour} {
		key := newKey(t)
		dumps, ttls := map[string][]string{}, map[string][]time.Duration{}
		both(t, func(t *testing.T, l library) {
			m := l.newMutex(servers, key, fixedValue("value"), expiry(d))
			look := func() {
				for _, s := range servers {
					dumps[l.name] = append(dumps[l.name], s.Dump(t.Context(), key).Val())
					left := s.PTTL(t.Context(), key).Val()
					assert.LessOrEqual(t, left, d)
					ttls[l.name] = append(ttls[l.name], left)
				}
			}
			require.NoError(t, m.Lock())
			look()
			succeeds(t, m.Extend)
			look()
			expire(t, key, servers...)
			restored := l.newMutex(servers, key, value("value"), setNXOnExtend(), expiry(d))
			succeeds(t, restored.Extend)
			look()
			succeeds(t, m.Unlock)
		})
		assert.Equal(t, dumps["original"], dumps["ours"])
		assert.Len(t, dumps["ours"], 9)
		assert.NotContains(t, dumps["ours"], "")
		for i, left := range ttls["original"] {
			assert.InDelta(t, left, ttls["ours"][i], float64(2*time.Second))
		}
	}
}
