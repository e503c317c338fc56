package check

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/leasewheel/leasewheel/internal/testprocess"
	"github.com/leasewheel/leasewheel/internal/testproxy"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/etcdstore"
)

func TestMain(m *testing.M) {
	flag.Parse()
	_ = flag.Set("test.parallel", "24") // most cases of the contract sleep
	testproxy.ServeNames()
	goleak.VerifyTestMain(m)
}

// program builds the server. It runs without the race detector, which would take the processor from the
// tests.
var program = sync.OnceValues(func() (path string, err error) {
	out, err := exec.Command("go", "tool", "-n", "etcd").Output()
	return strings.TrimSpace(string(out)), err
})

// member is one server, in a process of its own, so that it can be killed and stopped.
type member struct {
	name, dir, client, cluster string
	peer, listenPeer           string   // the URLs at which others reach it, and at which it listens for them
	settings                   []string // more flags
	gate                       *gate    // listens at peer
	process                    *testprocess.Process
}

// start starts the server and ends it with the test.
func (m *member) start(t testing.TB) {
	t.Helper()
	path, flags := os.Getenv("ETCD"), m.flagsOfEtcd()
	var err error
	if path == "" {
		path, err = program()
		require.NoError(t, err)
		flags = slices.Concat([]string{"-name=" + m.name, "-client=" + m.client, "-peer=" + m.peer, "-listen-peer=" + m.listenPeer, "-cluster=" + m.cluster},
			m.settings, []string{m.dir})
	}
	cmd := exec.Command(path, flags...)
	_, err = cmd.StdinPipe() // the program ends with it
	require.NoError(t, err)
	m.process, err = testprocess.Start(cmd)
	require.NoError(t, err)
	t.Cleanup(m.process.Kill)
}

// flagsOfEtcd returns the arguments for the program etcd itself, which the environment variable ETCD names to test
// another version than that of go.mod.
func (m *member) flagsOfEtcd() []string {
	flags := []string{
		"-name=" + m.name, "-listen-client-urls=" + m.client, "-advertise-client-urls=" + m.client, "-initial-advertise-peer-urls=" + m.peer,
		"-listen-peer-urls=" + m.listenPeer, "-initial-cluster=" + m.cluster, "-data-dir=" + m.dir, "-log-level=fatal", "-unsafe-no-fsync", "-bcrypt-cost=4",
	}
	for _, s := range m.settings {
		if timeout, ok := strings.CutPrefix(s, "-election="); ok {
			s = "-heartbeat-interval=" + timeout[:len(timeout)-1] // a tenth, as by default
			flags = append(flags, "-election-timeout="+timeout)
		}
		flags = append(flags, s)
	}
	return flags
}

// kill ends the server without warning. It does nothing if the server has ended.
func (m *member) kill() { m.process.Kill() }

func (m *member) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	require.NoError(t, m.process.Cmd.Process.Signal(s))
}

// starting is held while a cluster starts. The start needs a processor, which tests with a deadline would lack
// if all clusters started at once.
var starting sync.Mutex

// startCluster starts servers that know each other, and returns when they answer. An election comes after
// half a second, so that the shortest TTL is a second, unless the settings say otherwise.
func startCluster(t testing.TB, n int, settings ...string) []*member {
	t.Helper()
	settings = append([]string{"-election=500"}, settings...)
	var members []*member
	var cluster []string
	for i, address := range freeAddresses(t, 2*n) {
		if i%2 == 0 {
			members = append(members, &member{
				name: fmt.Sprint("m", i/2), dir: t.TempDir(), client: "http://" + address, settings: settings,
			})
			continue
		}
		m := members[i/2]
		m.listenPeer = "http://" + address
		m.gate = newGate(t, address)
		m.peer = "http://" + m.gate.addr()
		cluster = append(cluster, m.name+"="+m.peer)
	}
	starting.Lock()
	defer starting.Unlock()
	for _, m := range members {
		m.cluster = strings.Join(cluster, ",")
		m.start(t)
	}
	client := connect(t, members...)
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		_, err := client.Get(ctx, "ready")
		return err == nil
	}, time.Minute, 20*time.Millisecond)
	return members
}

// freeAddresses returns addresses on which nothing listens.
func freeAddresses(t testing.TB, n int) []string {
	t.Helper()
	ports, err := testproxy.FreePorts(n)
	require.NoError(t, err)
	var addresses []string
	for _, port := range ports {
		addresses = append(addresses, fmt.Sprint("127.0.0.1:", port))
	}
	return addresses
}

// connect returns a client of some servers, which is closed with the test.
func connect(t testing.TB, members ...*member) *clientv3.Client {
	t.Helper()
	return connectAs(t, "", members...)
}

// connectAs connects as a user, whose password is its name.
func connectAs(t testing.TB, user string, members ...*member) *clientv3.Client {
	t.Helper()
	var endpoints []string
	for _, m := range members {
		endpoints = append(endpoints, m.client)
	}
	client, err := clientv3.New(clientv3.Config{
		Endpoints:            endpoints,
		DialKeepAliveTime:    10 * time.Second, // notices a server that is stopped
		DialKeepAliveTimeout: time.Second,
		Logger:               zap.NewNop(),
		Username:             user,
		Password:             user,
	})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

// open returns a store with the shortest TTL of the test servers. It is closed with the test.
func open(t testing.TB, client *clientv3.Client) *etcdstore.Store {
	t.Helper()
	s, err := etcdstore.New(client, &etcdstore.Options{MinTTL: time.Second})
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Close() })
	return s
}

// acquire acquires a free lock. A server on a busy machine may answer later than a short TTL allows, and is
// then asked again.
func acquire(t testing.TB, s driver.Store, r driver.Request) driver.Lease {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		l, err := s.Acquire(ctx, r)
		if err == nil || errors.Is(err, driver.ErrNotAcquired) || ctx.Err() != nil {
			assert.NoError(t, err) // also on a goroutine of the test
			return l
		}
	}
}
