package crash

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
)

// TestStoppedSavers stops processes that count in the state of a lock, for longer than the TTL, between
// reading and saving. No late save changes a state: each holder continues the count of the last
// confirmed save.
func TestStoppedSavers(t *testing.T) {
	t.Parallel()
	server := testredis.Start(t)
	const processes = 3
	path := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	o := order{Role: saver, Addr: server.Addr(), TTL: ttl, Keys: strings.Split("abcdefgh", ""), Log: path}
	all := make([]*process, processes)
	for i := range all {
		all[i] = start(t, o)
		all[i].receive(t, new(lockedReport))
	}
	read := func() (map[string]int, []string) {
		text, err := os.ReadFile(path)
		require.NoError(t, err)
		return checkSaves(string(text))
	}
	n := rounds(4, 400)
	shown := func() bool { counts, _ := read(); return counts[refused] >= n }
	stops := playRounds(n, shown, func(int) {
		time.Sleep(rand.N(ttl / 2))
		p := all[rand.N(processes)]
		p.stop(t)
		time.Sleep(ttl + rand.N(ttl))
		p.resume(t)
		time.Sleep(ttl / 10) // for the late saves
	})
	for _, p := range all {
		p.kill()
	}
	readStates(t, server, o.Keys, path)
	counts, wrong := read()
	assert.Empty(t, wrong)
	report.Add("stopped savers     %d stops: %d saves confirmed, %d without an answer, %d late saves refused; none changed a state",
		stops, counts[saved], counts[unsure]-len(o.Keys), counts[refused])
	assert.GreaterOrEqual(t, counts[refused], n, "too few processes held a lock when they were stopped")
	assert.Greater(t, counts[saved], 10*n)
}

// readStates appends what the next holder of each key is told.
func readStates(t *testing.T, server *testredis.Server, keys []string, path string) {
	ctx, cancel := context.WithTimeout(t.Context(), timeout)
	defer cancel()
	client, err := connect(server.Client(t), &lock.Options{Terms: lock.Terms{TTL: ttl, StateTTL: stateTTL}})
	require.NoError(t, err)
	log, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	require.NoError(t, err)
	for _, key := range keys {
		held, err := client.Mutex(key).Lock(ctx)
		require.NoError(t, err)
		data, from := held.State()
		countOn(log, saveLine{Key: key, Token: held.Token(), From: from}, data, func([]byte) error { return errUnsure })
	}
	require.NoError(t, log.Close())
	require.NoError(t, client.Close(ctx))
}
