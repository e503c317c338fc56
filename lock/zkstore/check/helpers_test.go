package check

import (
	"context"
	"flag"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/internal/testproxy"
	"github.com/leasewheel/leasewheel/internal/testzk"
	"github.com/leasewheel/leasewheel/lock/zkstore"
)

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "32") // most cases of the contract sleep
	testproxy.ServeNames()
	goleak.VerifyTestMain(testzk.Around(m))
}

// sessionTimeout gives the cases that do not wait for ends a TTL of 15 s.
const sessionTimeout = 30 * time.Second

func open(t testing.TB, timeout time.Duration, members ...*testzk.Member) *zkstore.Store {
	t.Helper()
	var servers []string
	for _, m := range members {
		servers = append(servers, m.Address)
	}
	return openAt(t, timeout, servers...)
}

func openAt(t testing.TB, timeout time.Duration, servers ...string) *zkstore.Store {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	s, err := zkstore.New(ctx, servers, &zkstore.Options{SessionTimeout: timeout})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

type silent struct{}

func (silent) Printf(string, ...any) {}

// connect returns a connection without a store.
func connect(t testing.TB, members ...*testzk.Member) *zk.Conn {
	t.Helper()
	var servers []string
	for _, m := range members {
		servers = append(servers, m.Address)
	}
	c, events, err := zk.Connect(servers, 30*time.Second, zk.WithLogInfo(false), zk.WithLogger(silent{}))
	require.NoError(t, err)
	t.Cleanup(func() {
		c.Close()
		for range events {
			continue
		}
	})
	return c
}
