// Package testnats starts NATS servers with JetStream for tests.
package testnats

import (
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

const (
	startTimeout  = 20 * time.Second
	reconnectWait = 50 * time.Millisecond
	pingInterval  = 500 * time.Millisecond
)

// Start starts a server in this process on a free port, which stops at the end of the test.
func Start(t testing.TB, change ...func(*server.Options)) *server.Server {
	t.Helper()
	o := &server.Options{
		Host: "127.0.0.1", Port: server.RANDOM_PORT, JetStream: true, StoreDir: t.TempDir(), NoLog: true, NoSigs: true,
	}
	for _, f := range change {
		f(o)
	}
	s, err := server.NewServer(o)
	require.NoError(t, err)
	s.Start()
	t.Cleanup(func() {
		s.Shutdown()
		s.WaitForShutdown()
	})
	require.True(t, s.ReadyForConnections(startTimeout), "the server has started")
	return s
}

// Connect returns a JetStream context on a connection of its own, which is closed at the end of the
// test.
func Connect(t testing.TB, s *server.Server, options ...nats.Option) jetstream.JetStream {
	t.Helper()
	nc, err := nats.Connect(s.ClientURL(), options...)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	return js
}
