package zkstore

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testzk"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// bytesOfSessions returns the bytes of the paths of all ephemeral nodes, by session.
func bytesOfSessions(m *testzk.Member) map[string]int {
	bytes, session := make(map[string]int), ""
	_, dump, _ := strings.Cut(m.Ask("dump"), "Ephemerals")
	for line := range strings.Lines(dump) {
		switch line = strings.TrimSpace(line); {
		case strings.HasPrefix(line, "0x"):
			session = line
		case strings.HasPrefix(line, "/"):
			bytes[session] += len(line)
		}
	}
	return bytes
}

// The crash of a client must not leave a transaction behind that no server can read.
func TestASessionHasABoundedNumberOfNodes(t *testing.T) {
	t.Parallel()
	const keys = 600 // about 860 kB of paths
	member := testzk.Start(t, 1)[0]
	s, err := New(t.Context(), []string{member.Address}, &Options{SessionTimeout: 2 * time.Minute})
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	batch := make([]driver.Lease, keys)
	require.NoError(t, s.each(keys, func(i int) (err error) {
		r := driver.Request{Key: fmt.Sprintf("%01000d", i), Owner: fmt.Sprint("a:", i), TTL: time.Minute}
		batch[i], err = s.Acquire(t.Context(), r)
		batch[i].Request = r
		return err
	}))
	sessions, all := bytesOfSessions(member), 0
	assert.Len(t, sessions, 3)
	for _, bytes := range sessions {
		assert.LessOrEqual(t, bytes, maxBytes)
		all += bytes
	}
	counted := 0
	for _, c := range s.clients {
		counted += c.bytes
	}
	assert.Equal(t, all, counted)

	_, err = s.Acquire(t.Context(), driver.Request{Key: batch[keys-1].Key, Owner: "b:1", TTL: time.Minute})
	require.ErrorIs(t, err, driver.ErrNotAcquired, "the sessions exclude each other")
	out := make([]renewal.Outcome, keys)
	require.NoError(t, s.Renew(t.Context(), batch, out))
	for i := range out {
		assert.Equal(t, renewal.Renewed, out[i])
	}
	errs := make([]error, keys)
	require.NoError(t, s.ReleaseAll(t.Context(), batch, errs))
	for i := range errs {
		require.NoError(t, errs[i])
	}
	assert.Empty(t, bytesOfSessions(member))
	for _, c := range s.clients {
		assert.Zero(t, c.bytes)
	}
}

func TestAStoreWithoutRoomRefuses(t *testing.T) {
	t.Parallel()
	s, err := New(t.Context(), []string{testzk.Start(t, 1)[0].Address}, nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	r := driver.Request{Key: "k", Owner: "a:1", TTL: 10 * time.Second}
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
	_, err = s.Acquire(t.Context(), driver.Request{Key: "other", Owner: "b:1", TTL: 10 * time.Second})
	require.ErrorIs(t, err, errTooMany)
	require.ErrorContains(t, err, `zkstore: acquire "other"`)
	_, err = s.Wait(t.Context(), driver.Request{Key: "other", Owner: "b:2", TTL: 10 * time.Second})
	require.ErrorIs(t, err, errTooMany)
	_, err = s.Acquire(t.Context(), r)
	require.NoError(t, err, "an owner keeps its node")
	held.Request = r
	require.NoError(t, s.Release(t.Context(), held))
}
