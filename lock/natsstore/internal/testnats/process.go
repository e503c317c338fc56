package testnats

import (
	"bufio"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/stretchr/testify/require"
)

// serverEnv is set in the environment of a process that is a server. Its value is the port and the
// folder.
const serverEnv = "TESTNATS_SERVER"

// Main runs a server and does not return, if this process is one that StartProcess has started.
// TestMain calls it first.
func Main() {
	value := os.Getenv(serverEnv)
	if value == "" {
		return
	}
	port, dir, _ := strings.Cut(value, ",")
	number, err := strconv.Atoi(port)
	if err != nil {
		panic(err)
	}
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: number, JetStream: true, StoreDir: dir, NoLog: true, NoSigs: true})
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
	t    testing.TB
	port string
	dir  string

	mu  sync.Mutex // guards cmd
	cmd *exec.Cmd
}

// StartProcess starts a server on a free port. It ends with the test.
func StartProcess(t testing.TB) *Process {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(l.Addr().String())
	require.NoError(t, err)
	require.NoError(t, l.Close())
	p := &Process{t: t, port: port, dir: t.TempDir()}
	p.Start()
	t.Cleanup(p.Kill)
	return p
}

// Start starts the server again, on the same port and with the same files.
func (p *Process) Start() {
	p.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), serverEnv+"="+p.port+","+p.dir)
	cmd.Stderr = os.Stderr
	// A process in a group of its own stays stopped if this one's group loses its shell.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	_, err := cmd.StdinPipe()
	require.NoError(p.t, err)
	out, err := cmd.StdoutPipe()
	require.NoError(p.t, err)
	require.NoError(p.t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	require.NoError(p.t, err, "the server has started")
	require.Equal(p.t, "ready\n", line)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cmd = cmd
}

// Kill ends the server as a crash does. It does nothing if the server has ended.
func (p *Process) Kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cmd == nil {
		return
	}
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
	p.cmd = nil
}

// Signal sends a signal to the server.
func (p *Process) Signal(s os.Signal) {
	p.t.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	require.NoError(p.t, p.cmd.Process.Signal(s))
}

// Connect returns a JetStream context on a connection that reconnects at once and without end. It is
// closed at the end of the test.
func (p *Process) Connect() jetstream.JetStream {
	p.t.Helper()
	nc, err := nats.Connect("nats://127.0.0.1:"+p.port, nats.MaxReconnects(-1), nats.ReconnectWait(reconnectWait),
		nats.PingInterval(pingInterval), nats.MaxPingsOutstanding(1))
	require.NoError(p.t, err)
	p.t.Cleanup(nc.Close)
	js, err := jetstream.New(nc)
	require.NoError(p.t, err)
	return js
}
