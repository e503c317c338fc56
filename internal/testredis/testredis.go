// Package testredis runs real redis-servers for tests. Each server has a free port of the
// loopback interface and its own directory, does not persist data by default, and ends with its
// test. A test can stop, continue, kill and restart a server.
//
// redis-server must be in PATH. A test fails if it is missing, and is never skipped.
package testredis

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/internal/testprocess"
)

const (
	maxLaunches  = 5                // another process may take the free port before the server does
	timeout      = 20 * time.Second // of the start, the end and the changes of a server
	pollInterval = 2 * time.Millisecond
	pingTimeout  = 50 * time.Millisecond
	busOffset    = 10_000 // the port of the cluster bus less the port of the server
)

// Server is a redis-server. Its methods are safe for concurrent use, except that
// Kill, Restart and Close must not run at the same time.
type Server struct {
	port int
	dir  string
	args []string

	mu      sync.Mutex // guards all below
	process *testprocess.Process
	release func() // of the port, after Kill; nil: it is not reserved
}

// Start runs a server until the end of the test. The args are those of redis-server, such as
// "--appendonly", "yes". If the first one is not an option, it is the path of a configuration
// file, which a sentinel needs.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s, err := Launch(args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Launch runs a server until Close. It is for callers without a test.
func Launch(args ...string) (*Server, error) {
	dir, err := os.MkdirTemp("", "testredis-")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, args: args}
	for range maxLaunches {
		if s.port, err = freePort(); err != nil {
			break
		}
		if err = s.start(); !errors.Is(err, errPortTaken) {
			break
		}
	}
	if err != nil {
		_ = os.RemoveAll(dir)
		return nil, err
	}
	return s, nil
}

// freePort returns a free port whose cluster bus port is also free.
func freePort() (int, error) {
	for {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return 0, err
		}
		port := l.Addr().(*net.TCPAddr).Port
		bus, busErr := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port+busOffset)))
		if err := l.Close(); err != nil {
			return 0, err
		}
		if busErr == nil {
			return port, bus.Close()
		}
	}
}

// start runs the process and waits until it serves.
func (s *Server) start() error {
	path, err := exec.LookPath("redis-server")
	if err != nil {
		return errors.New("testredis: redis-server is not in PATH (make setup installs it)")
	}
	p, err := testprocess.Start(exec.Command(path, s.commandLine()...))
	if err != nil {
		return fmt.Errorf("testredis: %w", err)
	}
	if err := s.awaitReady(p); err != nil {
		p.Kill()
		return err
	}
	s.mu.Lock()
	s.process = p
	s.mu.Unlock()
	return nil
}

// commandLine returns the command line. The args can override the options before them, but
// not those after them.
func (s *Server) commandLine() []string {
	var line []string
	args := s.args
	if len(args) > 0 && !strings.HasPrefix(args[0], "--") {
		line, args = args[:1:1], args[1:]
	}
	line = append(line, "--save", "", "--appendonly", "no")
	line = append(line, args...)
	return append(line, "--bind", "127.0.0.1", "--port", strconv.Itoa(s.port), "--dir", s.dir, "--daemonize", "no", "--logfile", "")
}

// awaitReady waits until the server answers. It checks that this server, and not another
// process that has taken the port, gives the answer.
func (s *Server) awaitReady(p *testprocess.Process) error {
	err := p.Await(func() error {
		if !s.answers() || !s.is(p) {
			return errors.New("no answer")
		}
		return nil
	})
	if err != nil && strings.Contains(p.Output(), "Address already in use") {
		return errPortTaken
	}
	return err
}

// is reports whether the server that answers is the process. INFO names the process. If INFO
// needs a password, the log shows that the server is ready, but not every server logs that. In that
// case the process is the one if it still runs after a second: without its port it
// would have exited.
func (s *Server) is(p *testprocess.Process) bool {
	info := s.ask("INFO server\r\n", func(got string) bool { return processID.MatchString(got) || strings.HasPrefix(got, "-") })
	if id := processID.FindStringSubmatch(info); id != nil {
		return id[1] == strconv.Itoa(p.Cmd.Process.Pid)
	}
	logged := strings.Contains(p.Output(), "Ready to accept connections") || strings.Contains(p.Output(), "Sentinel ID is")
	return logged || info != "" && time.Since(p.Began) > time.Second
}

var processID = regexp.MustCompile(`process_id:(\d+)\r\n`)

var errPortTaken = errors.New("testredis: port is taken")

// answers reports whether the server answers a PING, even with an error.
func (s *Server) answers() bool {
	answer := s.ask("PING\r\n", func(got string) bool { return strings.HasSuffix(got, "\n") })
	return answer != "" && !strings.HasPrefix(answer, "-LOADING")
}

// ask sends a command on a new connection. It returns the bytes received when they are
// enough, or when no more arrive.
func (s *Server) ask(command string, enough func(got string) bool) string {
	conn, err := net.DialTimeout("tcp", s.Addr(), pingTimeout)
	if err != nil {
		return ""
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(pingTimeout))
	if _, err := conn.Write([]byte(command)); err != nil {
		return ""
	}
	var got []byte
	for part := make([]byte, 4096); err == nil && !enough(string(got)); {
		var n int
		n, err = conn.Read(part)
		got = append(got, part[:n]...)
	}
	return string(got)
}

// Addr returns the address of the server as host:port.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// URL returns the address in the form that redis.ParseURL reads.
func (s *Server) URL() string { return "redis://" + s.Addr() }

// Client returns a client of the server with the default options. It is closed at the end of
// the test.
func (s *Server) Client(t testing.TB) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// Stop makes the server hang until Cont: its connections stay open, but it answers nothing.
// Stop returns when the server hangs.
func (s *Server) Stop() error {
	if err := s.current().Cmd.Process.Signal(testprocess.Stop); err != nil {
		return err
	}
	for deadline := time.Now().Add(timeout); s.answers(); time.Sleep(pollInterval) {
		if time.Now().After(deadline) {
			return errors.New("testredis: server still answers after SIGSTOP")
		}
	}
	return nil
}

// Cont continues the server after Stop.
func (s *Server) Cont() error { return s.current().Cmd.Process.Signal(testprocess.Continue) }

// Kill ends the server at once, like a crash. It returns after the process has exited. On Unix nobody
// else gets the port until Restart or Close.
func (s *Server) Kill() {
	s.current().Kill()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.release == nil {
		s.release = testprocess.ReservePort(s.port)
	}
}

// releasePort ends the reservation of the port after Kill.
func (s *Server) releasePort() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.release != nil {
		s.release()
		s.release = nil
	}
}

// Restart kills the server, if it is running, and starts it again on the same port and in the
// same directory, with the data that it had persisted.
func (s *Server) Restart() error {
	s.Kill()
	s.releasePort()
	deadline := time.Now().Add(timeout)
	for {
		err := s.start()
		if !errors.Is(err, errPortTaken) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(10 * pollInterval)
	}
}

// Close ends the server and removes its directory. It may be called again.
func (s *Server) Close() {
	s.Kill()
	s.releasePort()
	_ = os.RemoveAll(s.dir)
}

func (s *Server) current() *testprocess.Process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}

// Shared is one server for all tests of a package, which use different keys. It starts with
// the first call of Server and ends after the last test:
//
//	var shared testredis.Shared
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Around(m)) }
type Shared struct {
	Args []string // of redis-server

	one testprocess.Shared[*Server]
}

// Server returns the server, or fails the test.
func (s *Shared) Server(t testing.TB) *Server {
	t.Helper()
	server, err := s.one.TryWith(func() (*Server, error) { return Launch(s.Args...) })
	testprocess.Check(t, err)
	return server
}

// Around returns a runner that runs m and then closes the server.
func (s *Shared) Around(m testprocess.Runner) testprocess.Runner {
	return testprocess.Around(m, &s.one)
}
