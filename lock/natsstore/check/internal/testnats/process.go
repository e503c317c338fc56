// A server in a process of its own.

package testnats

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testprocess"
	"github.com/leasewheel/leasewheel/internal/testproxy"
)

// serverEnv is set in the environment of a process that is a server. Its value is the settings.
const serverEnv = "TESTNATS_SERVER"

// settings are those of a server.
type settings struct {
	Name   string
	Port   int
	Dir    string
	Peers  int      // the port for other servers of an ensemble; 0 if there is none
	Routes []string // URLs of the other servers
}

// options returns the settings as the server wants them.
func (s settings) options() (*server.Options, error) {
	o := &server.Options{ServerName: s.Name, Host: "127.0.0.1", Port: s.Port, JetStream: true, StoreDir: s.Dir, NoLog: true, NoSigs: true}
	if s.Peers == 0 {
		return o, nil
	}
	o.Cluster = server.ClusterOpts{
		Name: "test", Host: "127.0.0.1", Port: s.Peers,
		NoAdvertise:  true,          // to clients
		Advertise:    "127.0.0.1:1", // to servers: nobody listens there, so that they use their routes
		PingInterval: pingInterval, MaxPingsOut: 2,
	}
	for _, r := range s.Routes {
		u, err := url.Parse(r)
		if err != nil {
			return nil, err
		}
		o.Routes = append(o.Routes, u)
	}
	return o, nil
}

// Main runs a server and does not return, if this process is one that this package has started.
// TestMain calls it first.
func Main() {
	value := os.Getenv(serverEnv)
	if value == "" {
		return
	}
	var of settings
	if err := json.Unmarshal([]byte(value), &of); err != nil {
		panic(err)
	}
	options, err := of.options()
	if err != nil {
		panic(err)
	}
	s, err := server.NewServer(options)
	if err != nil {
		panic(err)
	}
	s.Start()
	if !s.ReadyForConnections(startTimeout) {
		os.Exit(1)
	}
	fmt.Println("ready")
	_, _ = os.Stdin.Read(make([]byte, 1)) // ends with the parent
	os.Exit(0)
}

// Process is a server in a process of its own, which can be killed and stopped.
type Process struct {
	t        testing.TB
	settings settings

	mu      sync.Mutex // guards process
	process *testprocess.Process
}

// StartProcess starts a server on a free port. It ends with the test.
func StartProcess(t testing.TB) *Process {
	t.Helper()
	return newProcess(t, settings{Port: freePort(t), Dir: t.TempDir()})
}

func newProcess(t testing.TB, s settings) *Process {
	t.Helper()
	p := &Process{t: t, settings: s}
	p.Start()
	t.Cleanup(p.Kill)
	return p
}

func freePort(t testing.TB) int {
	t.Helper()
	ports, err := testproxy.FreePorts(1)
	require.NoError(t, err)
	return ports[0]
}

// Start starts the server again, on the same port and with the same files.
func (p *Process) Start() {
	p.t.Helper()
	text, err := json.Marshal(p.settings)
	require.NoError(p.t, err)
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serverEnv+"="+string(text))
	_, err = cmd.StdinPipe()
	require.NoError(p.t, err)
	process, err := testprocess.Start(cmd)
	require.NoError(p.t, err)
	require.NoError(p.t, process.Await(func() error {
		if !strings.Contains(process.Output(), "ready\n") {
			return errors.New("it is not ready")
		}
		return nil
	}))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.process = process
}

// Kill ends the server as a crash does. It does nothing if the server has ended.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.process != nil {
		p.process.Kill()
	}
}

// Signal sends a signal to the server.
func (p *Process) Signal(s os.Signal) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	require.NoError(p.t, p.process.Cmd.Process.Signal(s))
}

// Addr returns the address of the server.
func (p *Process) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(p.settings.Port)) }

// Name returns the name that the server has in an ensemble.
func (p *Process) Name() string { return p.settings.Name }

// Connect returns a JetStream context on a connection that reconnects at once and without end. It is
// closed at the end of the test.
func (p *Process) Connect() jetstream.JetStream {
	p.t.Helper()
	return ConnectTo(p.t, p.Addr())
}

// ConnectTo is Connect for addresses of servers or of proxies to them. The connection goes to the
// first one that answers, and does not learn of others.
func ConnectTo(t testing.TB, addresses ...string) jetstream.JetStream {
	t.Helper()
	return connectTo(t, addresses, nats.PingInterval(pingInterval), nats.MaxPingsOutstanding(1))
}

// ConnectPatiently is Connect for a server that goes on: the connection does not break because a busy
// machine answers late.
func (p *Process) ConnectPatiently() jetstream.JetStream {
	p.t.Helper()
	return connectTo(p.t, []string{p.Addr()})
}

func connectTo(t testing.TB, addresses []string, options ...nats.Option) jetstream.JetStream {
	t.Helper()
	options = append(options, nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait), nats.DontRandomize(), nats.IgnoreDiscoveredServers())
	nc, err := nats.Connect("nats://"+strings.Join(addresses, ",nats://"), options...)
	require.NoError(t, err)
	t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(t, err)
	return js
}
