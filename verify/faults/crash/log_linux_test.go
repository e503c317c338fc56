package crash

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
)

// TestTheLogOfAResource has processes write a log under locks while others are paused, killed and started. Nobody reads their
// standard error. A checker that knows only the log finds no two of them at work on a key.
func TestTheLogOfAResource(t *testing.T) {
	t.Parallel()
	server := testredis.Start(t)
	const processes = 4
	n, taken := rounds(6, 300), 0
	path := filepath.Join(t.TempDir(), "log")
	require.NoError(t, os.WriteFile(path, nil, 0o600))
	o := order{Role: stepper, Addr: server.Addr(), TTL: ttl, Keys: []string{"a", "b", "c"}, Log: path, Mute: true}
	open := func() *process {
		p := start(t, o)
		p.receive(t, new(lockedReport))
		return p
	}
	all := make([]*process, processes)
	for i := range all {
		all[i] = open()
	}
	for range n {
		var work sync.WaitGroup
		victims := rand.Perm(processes)
		work.Go(func() {
			p := all[victims[0]]
			p.stop(t)
			time.Sleep(rand.N(2 * ttl))
			p.resume(t)
		})
		work.Go(func() {
			time.Sleep(rand.N(ttl))
			all[victims[1]].kill()
			all[victims[1]] = open()
		})
		work.Wait()
	}
	for _, p := range all {
		p.kill()
	}
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	steps, turns, wrong := checkLog(string(text))
	assert.Empty(t, wrong)
	for _, all := range turns {
		for i := 1; i < len(all); i++ {
			if all[i].process != all[i-1].process {
				taken++
			}
		}
	}
	report.Add("log of a resource  %d steps of %d processes, %d changes of the process at work; none beside another", steps, processes+n, taken)
	assert.Greater(t, taken, n)
}

func TestTheCheckerOfTheLog(t *testing.T) {
	steps, turns, wrong := checkLog("k 1 10 100\nk 1 10 200\nother 1 11 150\nk 2 11 201\nk 3 10 250\n")
	assert.Empty(t, wrong)
	assert.Equal(t, 5, steps)
	assert.Equal(t, []turn{{1, 10, 100, 200}, {2, 11, 201, 201}, {3, 10, 250, 250}}, turns["k"])
	for what, text := range map[string]string{
		"k: process 11 with token 2 begins 50 ns before process 10 with token 1 ends": "k 1 10 100\nk 2 11 150\nk 1 10 200\n",
		"k: process 10 with token 2 begins 0 ns before process 11 with token 1 ends":  "k 2 10 100\nk 1 11 100\n",
		"k: processes 10 and 11 have the token 1":                                     "k 1 10 100\nk 1 11 200\n",
		`a line that no step writes: "k 1 1"`:                                         "k 1 1",
	} {
		_, _, wrong := checkLog(text)
		assert.Equal(t, []string{what}, wrong)
	}
}

// TestNobodyReadsTheLog stops the server until renewals fail, while nobody reads what the holders log about it. That costs no lock
// that the server has.
func TestNobodyReadsTheLog(t *testing.T) {
	t.Parallel()
	server := testredis.Start(t)
	const keys, lease = 20, 5 * ttl
	n, kept := rounds(1, 20), 0
	played := playRounds(n, func() bool { return kept > 0 }, func(round int) {
		o := order{Role: holder, Addr: server.Addr(), TTL: lease, Mute: true}
		for i := range keys {
			o.Keys = append(o.Keys, fmt.Sprintf("unread %d %d-", round, i)) // nobody waits
		}
		p := start(t, o)
		defer p.kill()
		p.receive(t, new(lockedReport))
		require.NoError(t, server.Stop())
		time.Sleep(lease * 3 / 4) // one try to renew fails
		require.NoError(t, server.Cont())
		time.Sleep(lease)
		p.terminate(t)
		var said closedReport
		p.receive(t, &said)
		assert.Empty(t, said.Err)
		kept += keys - int(said.Lost) //nolint:gosec // at most keys
		p.readErrors(t, "store unavailable")
	})
	report.Add("unread log         %d processes that had %d locks each while the server stood still: %d locks were kept", played, keys, kept)
	assert.Positive(t, kept, "no process kept a lock")
}
