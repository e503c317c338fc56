package check

import (
	"context"
	"encoding/base64"
	"errors"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testzk"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/zkstore"
)

// The server creates the node of an owner, and its answer is lost with the connection.
func TestTheAnswerToACreationIsLost(t *testing.T) {
	t.Parallel()
	server := testzk.Shared(t)
	conn := connect(t, server)
	nodes := func(key string) []string {
		names, _, err := conn.Children("/leasewheel/" + base64.RawURLEncoding.EncodeToString([]byte(key)))
		if !errors.Is(err, zk.ErrNoNode) { // a server may remove an empty container
			require.NoError(t, err)
		}
		return names
	}
	for name, test := range map[string]func(t *testing.T, s *zkstore.Store, r driver.Request){
		"Acquire": func(t *testing.T, s *zkstore.Store, r driver.Request) {
			_, err := s.Acquire(t.Context(), r)
			require.Error(t, err)
			before := nodes(r.Key)
			require.Len(t, before, 1)
			l, err := s.Acquire(t.Context(), r)
			require.NoError(t, err)
			assert.Equal(t, before, nodes(r.Key), "the second request finds the node of the first one")
			require.NoError(t, s.Release(t.Context(), l))
		},
		"Wait": func(t *testing.T, s *zkstore.Store, r driver.Request) {
			l, err := s.Wait(t.Context(), r, func() {})
			require.NoError(t, err)
			assert.True(t, l.Unanswered)
			assert.Len(t, nodes(r.Key), 1)
			require.NoError(t, s.Release(t.Context(), l))
		},
		"Release": func(t *testing.T, s *zkstore.Store, r driver.Request) {
			_, err := s.Acquire(t.Context(), r)
			require.Error(t, err)
			require.Len(t, nodes(r.Key), 1)
			require.NoError(t, s.Release(t.Context(), driver.Lease{Request: r, Unanswered: true}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTap(t, server)
			s := openAt(t, sessionTimeout, p.listener.Addr().String())
			r := driver.Request{Key: t.Name(), Owner: "a:1", TTL: 10 * time.Second}
			warm, err := s.Acquire(t.Context(), driver.Request{Key: t.Name(), Owner: "first:1", TTL: 10 * time.Second}) // creates the node of the lock
			require.NoError(t, err)
			require.NoError(t, s.Release(t.Context(), warm))
			p.loses.Store(true)
			test(t, s, r)
			assert.False(t, p.loses.Load(), "an answer was lost")
			assert.Empty(t, nodes(r.Key))
		})
	}
}

// A client that cannot reach the servers for long gives up a release, but its session may survive the
// outage, for example a change of the leader. Then nobody but the store knows of the node.
func TestNobodyAsksAgainAfterALostAnswer(t *testing.T) {
	t.Parallel()
	server := testzk.Shared(t)
	conn := connect(t, server)
	p := newTap(t, server)
	s := openAt(t, sessionTimeout, p.listener.Addr().String())
	lock := "/leasewheel/" + base64.RawURLEncoding.EncodeToString([]byte(t.Name()))
	request := func(owner string) driver.Request {
		return driver.Request{Key: t.Name(), Owner: owner, TTL: 10 * time.Second}
	}
	_, err := s.Acquire(t.Context(), request("first:1"))
	require.NoError(t, err)
	require.NoError(t, s.Release(t.Context(), driver.Lease{Request: request("first:1")}))
	p.loses.Store(true)
	lost := request("lost:1")
	lost.TTL = 5 * time.Second // the node is looked at before
	_, err = s.Acquire(t.Context(), lost)
	require.Error(t, err)
	require.False(t, p.loses.Load(), "an answer was lost")
	sessionOfNode := func() int64 {
		names, _, err := conn.Children(lock)
		require.NoError(t, err)
		require.Len(t, names, 1)
		_, stat, err := conn.Get(lock + "/" + names[0])
		require.NoError(t, err)
		return stat.EphemeralOwner
	}
	session := sessionOfNode()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	next, err := s.Wait(ctx, request("next:1"), func() {})
	require.NoError(t, err, "the store removes the node when its lease has ended")
	assert.Equal(t, session, sessionOfNode(), "the session has not ended")
	require.NoError(t, s.Release(t.Context(), next))
}
