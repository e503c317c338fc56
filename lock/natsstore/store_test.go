package natsstore_test

import (
	"encoding/base64"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/natsstore"
	"github.com/leasewheel/leasewheel/lock/natsstore/internal/testnats"
)

func TestMain(m *testing.M) {
	testnats.Main()
	goleak.VerifyTestMain(m)
}

// open returns a store on a connection of its own.
func open(t *testing.T, s *server.Server) driver.Store {
	t.Helper()
	js := testnats.Connect(t, s)
	require.NoError(t, natsstore.CreateStream(t.Context(), js, nil))
	store, err := natsstore.New(t.Context(), js, nil)
	require.NoError(t, err)
	return store
}

func subject(key string) string {
	return "leasewheel.k." + base64.RawURLEncoding.EncodeToString([]byte(key))
}

// waiters returns the number of subscriptions to the releases of a lock.
func waiters(t *testing.T, at *server.Server, s driver.Store, key string) int {
	t.Helper()
	require.NoError(t, s.(*natsstore.Store).Flush())
	name := "leasewheel.w." + base64.RawURLEncoding.EncodeToString([]byte(key))
	of, err := at.Subsz(&server.SubszOptions{Subscriptions: true, Test: name, Limit: 100_000})
	require.NoError(t, err)
	n := 0
	for _, sub := range of.Subs {
		if sub.Subject == name {
			n++
		}
	}
	return n
}

func TestContract(t *testing.T) {
	t.Parallel()
	s := testnats.Start(t)
	js := testnats.Connect(t, s)
	foreign := []byte("not a lock")
	locktest.TestStore(t, locktest.Config{
		New:       func(t *testing.T) driver.Store { return open(t, s) },
		Another:   func(t *testing.T, _ driver.Store) driver.Store { return open(t, s) },
		TTL:       3 * time.Second,
		Inspects:  true,
		Lists:     true,
		Unordered: true,
		Waiting:   func(t *testing.T, of driver.Store, key string) int { return waiters(t, s, of, key) },
		Delete: func(t *testing.T, _ driver.Store, key string) {
			stream, err := js.Stream(t.Context(), "LEASEWHEEL")
			require.NoError(t, err)
			m, err := stream.GetLastMsgForSubject(t.Context(), subject(key))
			require.NoError(t, err)
			require.NoError(t, stream.DeleteMsg(t.Context(), m.Sequence))
		},
		Spoil: func(t *testing.T, _ driver.Store, key string) {
			_, err := js.Publish(t.Context(), subject(key), foreign)
			require.NoError(t, err)
		},
		Spoiled: func(t *testing.T, _ driver.Store, key string) bool {
			stream, err := js.Stream(t.Context(), "LEASEWHEEL")
			require.NoError(t, err)
			m, err := stream.GetLastMsgForSubject(t.Context(), subject(key))
			return err == nil && assert.ObjectsAreEqual(foreign, m.Data)
		},
	})
}

func TestNewRefusesAnUnsafeStream(t *testing.T) {
	js := testnats.Connect(t, testnats.Start(t))
	_, err := natsstore.New(t.Context(), js, nil)
	require.ErrorIs(t, err, jetstream.ErrStreamNotFound)
	require.NoError(t, natsstore.CreateStream(t.Context(), js, nil))
	safe, err := js.Stream(t.Context(), "LEASEWHEEL")
	require.NoError(t, err)
	for setting, change := range map[string]func(*jetstream.StreamConfig){
		"AllowMsgTTL":       func(c *jetstream.StreamConfig) { c.AllowMsgTTL = false },
		"MaxMsgsPerSubject": func(c *jetstream.StreamConfig) { c.MaxMsgsPerSubject = 2 },
		"Duplicates":        func(c *jetstream.StreamConfig) { c.Duplicates = time.Second },
		"MaxAge":            func(c *jetstream.StreamConfig) { c.MaxAge = time.Hour },
		"MaxMsgs":           func(c *jetstream.StreamConfig) { c.MaxMsgs = 10 },
		"MaxBytes":          func(c *jetstream.StreamConfig) { c.MaxBytes = 1000 },
		"AllowDirect":       func(c *jetstream.StreamConfig) { c.AllowDirect = true },
	} {
		t.Run(setting, func(t *testing.T) {
			js := testnats.Connect(t, testnats.Start(t))
			config := safe.CachedInfo().Config
			change(&config)
			_, err = js.CreateStream(t.Context(), config)
			require.NoError(t, err)
			_, err = natsstore.New(t.Context(), js, nil)
			require.ErrorContains(t, err, "stream LEASEWHEEL: "+setting+" is ")
		})
	}
}
