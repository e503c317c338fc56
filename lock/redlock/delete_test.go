package redlock

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/driver"
)

const (
	yes, no        = ":1\r\n", ":0\r\n"
	unknownCommand = "-ERR unknown command, with args beginning with: 'k'\r\n"
)

// deleting is a server that answers as the test says, and counts the requests.
type deleting struct {
	testredis.Wire
	mu      sync.Mutex // guards all below
	answers map[string]string
	calls   map[string]int
	last    []string // the last DELEX or DELIFEQ
}

// newDeleting returns a server with the answers to DELEX and DELIFEQ. Scripts succeed.
func newDeleting(delex, delifeq string) *deleting {
	d := &deleting{answers: map[string]string{"delex": delex, "delifeq": delifeq, "script": yes}, calls: make(map[string]int)}
	d.Answer = func(command []string) string {
		name := strings.ToLower(command[0])
		d.mu.Lock()
		defer d.mu.Unlock()
		if strings.HasPrefix(name, "eval") {
			name = "script"
		} else {
			d.last = command
		}
		d.calls[name]++
		return d.answers[name]
	}
	return d
}

func (d *deleting) set(name, answer string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.answers[name] = answer
}

// called returns how often DELEX, DELIFEQ and a script were sent since the last call.
func (d *deleting) called() []int {
	d.mu.Lock()
	defer d.mu.Unlock()
	all := []int{d.calls["delex"], d.calls["delifeq"], d.calls["script"]}
	clear(d.calls)
	return all
}

// held returns a lease for Release.
func held(key string) driver.Lease { return driver.Lease{Request: request(key)} }

func TestAReleaseIsOneCommandWhereTheServerHasIt(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		delex, delifeq string
		first, later   []int
		words          []string
	}{
		{yes, unknownCommand, []int{1, 0, 0}, []int{1, 0, 0}, []string{"DELEX", "k", "IFEQ"}},
		{unknownCommand, yes, []int{1, 1, 0}, []int{0, 1, 0}, []string{"DELIFEQ", "k"}},
	} {
		server := newDeleting(c.delex, c.delifeq)
		s := newStore(t, server.Client(t, redis.Options{}), "")
		l := held("k")
		require.NoError(t, s.Release(t.Context(), l))
		assert.Equal(t, append(c.words, l.Owner), server.last)
		assert.Equal(t, c.first, server.called())
		for name, answer := range map[string]string{"delex": c.delex, "delifeq": c.delifeq} {
			if answer == yes {
				server.set(name, no)
			}
		}
		require.ErrorIs(t, s.Release(t.Context(), l), driver.ErrNotHeld)
		assert.Equal(t, c.later, server.called())
		l.Unanswered = true
		require.NoError(t, s.Release(t.Context(), l))
		assert.Equal(t, []int{0, 0, 1}, server.called(), "only the script writes a tombstone")
	}
}

func TestAServerThatRefusesTheCommandGetsTheScript(t *testing.T) {
	t.Parallel()
	for _, refusal := range []string{
		unknownCommand,
		"-NOPERM User worker has no permissions to run the 'delex' command\r\n",
		"-ERR wrong number of arguments for 'delex' command\r\n",
		"-ERR syntax error\r\n",
	} {
		server := newDeleting(refusal, refusal)
		s := newStore(t, server.Client(t, redis.Options{}), "")
		require.NoError(t, s.Release(t.Context(), held("k")))
		assert.Equal(t, []int{1, 1, 1}, server.called(), refusal)
		for range 3 {
			require.NoError(t, s.Release(t.Context(), held("k")))
		}
		assert.Equal(t, []int{0, 0, 3}, server.called(), refusal)

		server.set("delex", yes) // the server was upgraded
		n := s.redis.Serving(0)
		s.deleters.byNode[n.ID()] = knownDeleter{script, time.Now().Add(-probeAgain)}
		for range 3 {
			require.NoError(t, s.Release(t.Context(), held("k")))
		}
		assert.Equal(t, []int{3, 0, 0}, server.called(), "it is asked again")
	}
}

func TestAServerThatStillRefusesTheCommandIsAskedOnce(t *testing.T) {
	t.Parallel()
	server := newDeleting(unknownCommand, unknownCommand)
	s := newStore(t, server.Client(t, redis.Options{}), "")
	require.NoError(t, s.Release(t.Context(), held("k")))
	server.called()
	s.deleters.byNode[s.redis.Serving(0).ID()] = knownDeleter{script, time.Now().Add(-probeAgain)}
	for range 3 {
		require.NoError(t, s.Release(t.Context(), held("k")))
	}
	assert.Equal(t, []int{1, 1, 3}, server.called())
}

// After a fail-over another server may answer, which does not know the command of the last one.
func TestAServerThatKnowsTheCommandNoMore(t *testing.T) {
	t.Parallel()
	server := newDeleting(yes, unknownCommand)
	s := newStore(t, server.Client(t, redis.Options{}), "")
	require.NoError(t, s.Release(t.Context(), held("k")))
	server.set("delex", unknownCommand)
	for range 2 {
		require.NoError(t, s.Release(t.Context(), held("k")))
	}
	assert.Equal(t, []int{2, 1, 2}, server.called())
}

func TestAnErrorThatDoesNotConcernTheCommandChangesNothing(t *testing.T) {
	t.Parallel()
	for _, refusal := range []string{"-WRONGTYPE Operation against a key\r\n", "-READONLY You can't write\r\n", "-LOADING Redis is loading\r\n"} {
		server := newDeleting(refusal, yes)
		server.set("script", no)
		s := newStore(t, server.Client(t, redis.Options{}), "")
		for range 2 {
			require.ErrorIs(t, s.Release(t.Context(), held("k")), driver.ErrNotHeld)
		}
		assert.Equal(t, []int{2, 0, 2}, server.called(), "the script answers: %s", refusal)
	}
	for _, reply := range []string{"+OK\r\n", ":2\r\n"} {
		server := newDeleting(reply, yes)
		s := newStore(t, server.Client(t, redis.Options{}), "")
		err := s.Release(t.Context(), held("k"))
		require.Error(t, err, reply)
		require.NotErrorIs(t, err, driver.ErrNotHeld, reply)
		assert.Equal(t, []int{1, 0, 0}, server.called(), reply)
	}
}

func TestEachNodeOfAClusterHasItsDeleter(t *testing.T) {
	t.Parallel()
	modern, old := newDeleting(yes, yes), newDeleting(unknownCommand, unknownCommand)
	node := func(d *deleting) []redis.ClusterNode {
		return []redis.ClusterNode{{Addr: d.Client(t, redis.Options{}).Options().Addr}}
	}
	slots := []redis.ClusterSlot{{Start: 0, End: 8191, Nodes: node(modern)}, {Start: 8192, End: 16383, Nodes: node(old)}}
	rdb := redis.NewClusterClient(&redis.ClusterOptions{
		ClusterSlots: func(context.Context) ([]redis.ClusterSlot, error) { return slots, nil },
	})
	t.Cleanup(func() { assert.NoError(t, rdb.Close()) })
	s := newStore(t, rdb, "")
	for _, key := range []string{"b", "a"} { // slots 3300 and 15495
		require.NoError(t, s.Release(t.Context(), held(key))) // the first release of a store finds the nodes
	}
	modern.called()
	old.called()
	for range 2 {
		require.NoError(t, s.Release(t.Context(), held("b")))
		require.NoError(t, s.Release(t.Context(), held("a")))
	}
	assert.Equal(t, []int{2, 0, 0}, modern.called())
	assert.Equal(t, []int{0, 0, 2}, old.called())
}

// ReleaseAll sends scripts in one round trip, whatever commands the server has.
func TestReleaseAllSendsScripts(t *testing.T) {
	t.Parallel()
	server := newDeleting(yes, yes)
	s := newStore(t, server.Client(t, redis.Options{}), "")
	out := make([]error, 2)
	require.NoError(t, s.ReleaseAll(t.Context(), []driver.Lease{held("a"), held("b")}, out))
	assert.Equal(t, []error{nil, nil}, out)
	assert.Equal(t, []int{0, 0, 2}, server.called())
}
