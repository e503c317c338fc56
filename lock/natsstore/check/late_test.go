package check

import (
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/natsstore"
	"github.com/leasewheel/leasewheel/lock/natsstore/check/internal/testnats"
)

// loseLock has an owner acquire a lock that is deleted then, on a server of its own.
func loseLock(t *testing.T, r driver.Request) (jetstream.JetStream, *natsstore.Store) {
	t.Helper()
	at := testnats.Start(t)
	s, js := open(t, at).(*natsstore.Store), testnats.Connect(t, at)
	l, err := s.Acquire(t.Context(), r)
	require.NoError(t, err)
	of, err := js.Stream(t.Context(), stream)
	require.NoError(t, err)
	require.NoError(t, of.DeleteMsg(t.Context(), l.Token))
	return js, s
}

// An owner that held a lock asks for it again and gives up, and the request arrives after the
// release. Another server, to which the same has happened, shows the request.
func TestALateRequestOfAnOwnerThatHeldTheLock(t *testing.T) {
	r := driver.Request{Key: "k", Owner: "a:1", TTL: time.Hour}
	js, s := loseLock(t, r)
	requests, err := js.Conn().SubscribeSync(subject(r.Key))
	require.NoError(t, err)
	require.NoError(t, js.Conn().Flush())
	_, err = s.Acquire(t.Context(), r)
	require.NoError(t, err)
	var late *nats.Msg
	for range 2 { // the server drops the first one
		late, err = requests.NextMsg(patience)
		require.NoError(t, err)
	}

	js, s = loseLock(t, r)
	require.ErrorIs(t, s.Release(t.Context(), driver.Lease{Request: r, Unanswered: true}), driver.ErrNotHeld)
	ack, err := js.PublishMsg(t.Context(), &nats.Msg{Subject: late.Subject, Header: late.Header, Data: late.Data})
	require.NoError(t, err)
	assert.True(t, ack.Duplicate, "the late request takes the lock")
	_, err = s.Acquire(t.Context(), r)
	require.ErrorIs(t, err, driver.ErrNotAcquired, "the owner was released")
	_, err = s.Acquire(t.Context(), driver.Request{Key: "k", Owner: "b:1", TTL: time.Hour})
	require.NoError(t, err)
}
