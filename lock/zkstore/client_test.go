package zkstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testproxy"
	"github.com/leasewheel/leasewheel/internal/testzk"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/storekit"
	"github.com/leasewheel/leasewheel/renewal"
)

// bytesOfSessions returns the bytes of the paths of all ephemeral nodes below a root, by session.
func bytesOfSessions(m *testzk.Member, root string) map[string]int {
	bytes, session := make(map[string]int), ""
	_, dump, _ := strings.Cut(m.Ask("dump"), "Ephemerals")
	for line := range strings.Lines(dump) {
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "0x"):
			session = line
		case strings.HasPrefix(line, root+"/"):
			bytes[session] += len(line)
		}
	}
	return bytes
}

// The crash of a client must not leave a transaction behind that no server can read.
func TestASessionHasABoundedNumberOfNodes(t *testing.T) {
	t.Parallel()
	const keys = 600 // about 860 kB of paths
	member := testzk.Shared(t)
	s, err := New(t.Context(), []string{member.Address}, &Options{Root: "/bounded", SessionTimeout: 2 * time.Minute})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	batch := make([]driver.Lease, keys)
	require.NoError(t, storekit.Each(keys, maxReads, func(i int) (err error) {
		r := driver.Request{Key: fmt.Sprintf("%01000d", i), Owner: fmt.Sprint("a:", i), TTL: time.Minute}
		batch[i], err = s.Acquire(t.Context(), r)
		batch[i].Request = r
		return err
	}))
	counted := 0
	for _, c := range s.clients {
		counted += c.bytes
	}
	require.Eventually(t, func() bool { // a busy server may not send all in time
		sessions, all := bytesOfSessions(member, s.root), 0
		for _, bytes := range sessions {
			require.LessOrEqual(t, bytes, maxBytes)
			all += bytes
		}
		return len(sessions) == 3 && all == counted
	}, time.Minute, 10*time.Millisecond)

	_, err = s.Acquire(t.Context(), driver.Request{Key: batch[keys-1].Key, Owner: "b:1", TTL: time.Minute})
	require.ErrorIs(t, err, driver.ErrNotAcquired, "the sessions exclude each other")
	out := make([]renewal.Outcome, keys)
	require.NoError(t, s.Renew(t.Context(), batch, out))
	for i := range out {
		assert.Equal(t, renewal.Renewed, out[i])
	}
	require.NoError(t, storekit.Each(keys, maxReads, func(i int) error { return s.Release(t.Context(), batch[i]) }))
	assert.Empty(t, bytesOfSessions(member, s.root))
	for _, c := range s.clients {
		assert.Zero(t, c.bytes)
	}
}

func TestAStoreWithoutRoomRefuses(t *testing.T) {
	t.Parallel()
	s, err := New(t.Context(), []string{testzk.Shared(t).Address}, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	r := driver.Request{Key: t.Name(), Owner: "a:1", TTL: 10 * time.Second}
	held, err := s.Acquire(t.Context(), r)
	require.NoError(t, err)
	s.mu.Lock()
	first := s.clients[0]
	full := &client{Store: s, link: first.link, bytes: maxBytes}
	first.bytes += maxBytes
	for range maxClients - 1 {
		s.clients = append(s.clients, full)
	}
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.clients = s.clients[:1]
		s.mu.Unlock()
	}()
	_, err = s.Acquire(t.Context(), driver.Request{Key: t.Name() + "other", Owner: "b:1", TTL: 10 * time.Second})
	require.ErrorIs(t, err, errTooMany)
	require.ErrorContains(t, err, "zkstore: acquire: ")
	_, err = s.Wait(t.Context(), driver.Request{Key: t.Name() + "other", Owner: "b:2", TTL: 10 * time.Second}, func() {})
	require.ErrorIs(t, err, errTooMany)
	_, err = s.Acquire(t.Context(), r)
	require.NoError(t, err, "an owner keeps its node")
	held.Request = r
	require.NoError(t, s.Release(t.Context(), held))
}

// A watch lasts as long as its node, so waiters that give up must not add watches, and one that comes too
// late for a node must not leave a watch behind.
func TestANodeHasOneWatch(t *testing.T) {
	t.Parallel()
	member := testzk.Shared(t)
	s, err := New(t.Context(), []string{member.Address}, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	r := driver.Request{Key: t.Name(), Owner: "a:1", TTL: 10 * time.Second}
	_, err = s.Acquire(t.Context(), r)
	require.NoError(t, err)
	c := s.first()
	all, _, err := c.nodes(t.Context(), r.Key)
	require.NoError(t, err)
	path := s.lockPath(r.Key) + "/" + all[0].name
	changed, err := c.watch(t.Context(), path, noVersion)
	require.NoError(t, err)
	for range 10 {
		again, err := c.watch(t.Context(), path, noVersion)
		require.NoError(t, err)
		assert.Equal(t, changed, again)
	}
	_, err = c.watch(t.Context(), path+"0", noVersion)
	require.ErrorIs(t, err, zk.ErrNoNode)
	assert.Contains(t, member.Ask("wchp"), path+"\n")
	assert.NotContains(t, member.Ask("wchp"), path+"0")

	require.NoError(t, s.Release(t.Context(), driver.Lease{Request: r}))
	<-changed
	_, err = c.watch(t.Context(), path, noVersion)
	require.ErrorIs(t, err, zk.ErrNoNode)
	assert.Empty(t, c.watches)
	assert.NotContains(t, member.Ask("wchp"), path)
}

func TestErrorsNameTheNetwork(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err := New(ctx, []string{"127.0.0.1:1"}, nil)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorIs(t, err, syscall.ECONNREFUSED)

	link, err := testproxy.New("tcp", testzk.Shared(t).Address)
	require.NoError(t, err)
	t.Cleanup(link.Close)
	s, err := New(t.Context(), []string{link.Addr()}, &Options{SessionTimeout: 30 * time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	s.bound = 20 * time.Millisecond
	r := driver.Request{Key: t.Name(), Owner: "a:1", TTL: 10 * time.Second}
	link.Block()
	for name, call := range map[string]func(context.Context) error{
		"acquire": func(ctx context.Context) error { _, err := s.Acquire(ctx, r); return err },
		"release": func(ctx context.Context) error { return s.Release(ctx, driver.Lease{Request: r}) },
		"inspect": func(ctx context.Context) error { _, err := s.Inspect(ctx, r.Key); return err },
		"list":    func(ctx context.Context) error { _, _, err := s.List(ctx, "", ""); return err },
	} {
		require.ErrorContains(t, call(context.Background()), "no answer within 20ms", name)
	}
	link.Close()
	s.bound = time.Minute
	require.Eventually(t, func() bool {
		_, err := s.Acquire(t.Context(), r)
		return errors.Is(err, syscall.ECONNREFUSED)
	}, time.Minute, time.Millisecond)
	r.TTL = time.Second
	_, err = s.Wait(t.Context(), r, func() {})
	require.ErrorIs(t, err, syscall.ECONNREFUSED)
}
