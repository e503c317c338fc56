// A proxy to a server.

package testredis

import (
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/internal/testproxy"
)

// Proxy is a proxy between clients and a server that simulates faults of a network.
type Proxy struct{ *testproxy.Proxy }

// StartProxy runs a proxy to a server until the end of the test.
func StartProxy(t testing.TB, s *Server) *Proxy {
	t.Helper()
	p, err := testproxy.New("tcp", s.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return &Proxy{p}
}

// Client returns a client that reaches the server through the proxy. It is closed at the end
// of the test.
func (p *Proxy) Client(t testing.TB) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: p.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}
