package check

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/goleak"
	"go.uber.org/zap"

	"github.com/leasewheel/leasewheel/internal/testproxy"
	"github.com/leasewheel/leasewheel/lock/etcdstore"
)

// serverVariable makes the test binary a server with the settings that it holds.
const serverVariable = "ETCDSTORE_TEST_SERVER"

func TestMain(m *testing.M) {
	if settings := os.Getenv(serverVariable); settings != "" {
		serve(settings)
		return
	}
	flag.Parse()
	_ = flag.Set("test.parallel", "24") // most cases of the contract sleep
	goleak.VerifyTestMain(m)
}

// member is one server, in a process of its own, so that it can be killed and stopped.
type member struct {
	Name, Dir, Client, Cluster string
	Peer, ListenPeer           string // the URLs at which others reach it, and at which it listens for them
	ElectionMs                 uint   // 500 unless it is set, so that the shortest TTL is a second
	MaxTxnOps                  uint   // 0: as by default
	gate                       *gate  // listens at Peer
	process                    *exec.Cmd
	input                      interface{ Close() error }
}

// serve runs a server until the standard input ends.
func serve(settings string) {
	var m member
	if err := json.Unmarshal([]byte(settings), &m); err != nil {
		panic(err)
	}
	cfg := embed.NewConfig()
	cfg.Name, cfg.Dir, cfg.InitialCluster = m.Name, m.Dir, m.Cluster
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = urls(m.Client), urls(m.Client)
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = urls(m.ListenPeer), urls(m.Peer)
	cfg.TickMs, cfg.ElectionMs = 50, cmp.Or(m.ElectionMs, 500)
	cfg.UnsafeNoFsync = true
	cfg.BcryptCost = 4 // the least
	cfg.MaxTxnOps = cmp.Or(m.MaxTxnOps, cfg.MaxTxnOps)
	cfg.LogLevel = "fatal"
	server, err := embed.StartEtcd(cfg)
	if err != nil {
		panic(err)
	}
	fmt.Println("started")
	_, _ = bufio.NewReader(os.Stdin).ReadString(0)
	server.Close()
}

func urls(of string) []url.URL {
	u, err := url.Parse(of)
	if err != nil {
		panic(err)
	}
	return []url.URL{*u}
}

// start starts the server and ends it with the test.
func (m *member) start(t testing.TB) {
	t.Helper()
	settings, err := json.Marshal(m)
	require.NoError(t, err)
	m.process = exec.Command(os.Args[0])
	m.process.Env = append(os.Environ(), serverVariable+"="+string(settings))
	m.process.Stderr = os.Stderr
	m.input, err = m.process.StdinPipe()
	require.NoError(t, err)
	require.NoError(t, m.process.Start())
	t.Cleanup(func() { m.kill() })
}

// kill ends the server without warning. It does nothing if the server has ended.
func (m *member) kill() {
	if m.process.ProcessState == nil {
		_ = m.process.Process.Kill()
		_ = m.process.Wait()
	}
}

func (m *member) signal(t testing.TB, s syscall.Signal) {
	t.Helper()
	require.NoError(t, m.process.Process.Signal(s))
}

// startCluster starts servers that know each other, and returns when they answer.
func startCluster(t testing.TB, n int) []*member {
	t.Helper()
	return startWith(t, n, member{})
}

// startWith starts servers with the settings of one.
func startWith(t testing.TB, n int, settings member) []*member {
	t.Helper()
	var members []*member
	var cluster []string
	for i, address := range freeAddresses(t, 2*n) {
		if i%2 == 0 {
			name := fmt.Sprint("m", i/2)
			m := settings
			m.Name, m.Dir, m.Client = name, filepath.Join(t.TempDir(), name), "http://"+address
			members = append(members, &m)
			continue
		}
		m := members[i/2]
		m.ListenPeer = "http://" + address
		m.gate = newGate(t, address)
		m.Peer = "http://" + m.gate.addr()
		cluster = append(cluster, m.Name+"="+m.Peer)
	}
	for _, m := range members {
		m.Cluster = strings.Join(cluster, ",")
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
		endpoints = append(endpoints, m.Client)
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
