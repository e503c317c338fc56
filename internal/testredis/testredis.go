// Package testredis runs real redis-servers for tests: each on a free port of the
// loopback, in a folder of its own, without persistence unless asked for, and
// gone when the test is. A server can be stopped, continued, killed and started
// again, which is what makes it worth more than a fake.
//
// redis-server must be in PATH. A test that needs it and does not find it fails;
// it is never skipped.
package testredis

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	launches    = 5 // a free port may be taken by another before the server has it
	patience    = 20 * time.Second
	pause       = 2 * time.Millisecond // between two looks at a server
	pingTimeout = 50 * time.Millisecond
	busOffset   = 10_000 // from the port of a server to that of its cluster bus
)

// Server is a redis-server. Its methods are safe for concurrent use, except that
// Kill, Restart and Close must not run at the same time.
type Server struct {
	port int
	dir  string
	args []string

	mu      sync.Mutex // guards process
	process *process
}

// Start runs a server until the end of the test. The args are those of
// redis-server, such as "--appendonly", "yes"; a first one that is no option is
// the path of a configuration file, as a sentinel needs it.
func Start(t testing.TB, args ...string) *Server {
	t.Helper()
	s, err := Launch(args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Launch runs a server until Close, for those that have no test at hand.
func Launch(args ...string) (*Server, error) {
	dir, err := os.MkdirTemp("", "testredis-")
	if err != nil {
		return nil, err
	}
	s := &Server{dir: dir, args: args}
	for range launches {
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

// freePort returns a port that is free at this moment, and so is the one that a
// node of a cluster uses beside it.
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
		return errors.New("testredis: these tests need redis-server in PATH, and it is not there: make setup installs it")
	}
	p, err := run(path, s.commandLine())
	if err != nil {
		return fmt.Errorf("testredis: %w", err)
	}
	if err := s.awaitReady(p); err != nil {
		p.kill()
		return err
	}
	s.mu.Lock()
	s.process = p
	s.mu.Unlock()
	return nil
}

// commandLine puts the args between what they may overrule and what they may not.
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

// awaitReady waits until the server answers. That the process itself says so too
// makes sure that it is not another's server, on a port that was snatched.
func (s *Server) awaitReady(p *process) error {
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(pause) {
		switch {
		case p.hasExited():
			if strings.Contains(p.log(), "Address already in use") {
				return errPortTaken
			}
			return fmt.Errorf("testredis: redis-server has ended:\n%s", p.log())
		case saysReady(p.log()) && s.answers():
			return nil
		}
	}
	return fmt.Errorf("testredis: redis-server did not answer within %v:\n%s", patience, p.log())
}

func saysReady(log string) bool {
	return strings.Contains(log, "Ready to accept connections") || strings.Contains(log, "Sentinel ID is")
}

var errPortTaken = errors.New("testredis: the port is taken")

// answers reports whether the server answers a PING, be it with a refusal.
func (s *Server) answers() bool {
	conn, err := net.DialTimeout("tcp", s.Addr(), pingTimeout)
	if err != nil {
		return false
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(pingTimeout))
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	answer := make([]byte, 64)
	n, err := conn.Read(answer)
	return err == nil && !strings.HasPrefix(string(answer[:n]), "-LOADING")
}

// Addr returns host:port of the server.
func (s *Server) Addr() string { return net.JoinHostPort("127.0.0.1", strconv.Itoa(s.port)) }

// URL returns the address as redis.ParseURL reads it.
func (s *Server) URL() string { return "redis://" + s.Addr() }

// Client returns a client of the server, as a user makes one. It is closed at the
// end of the test.
func (s *Server) Client(t testing.TB) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: s.Addr()})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// Stop makes the server hang: its connections stay open, nothing is answered
// until Cont. It returns when the server hangs.
func (s *Server) Stop() error {
	if err := s.current().stop(); err != nil {
		return err
	}
	for deadline := time.Now().Add(patience); s.answers(); time.Sleep(pause) {
		if time.Now().After(deadline) {
			return errors.New("testredis: the server still answers")
		}
	}
	return nil
}

// Cont lets the server go on after Stop.
func (s *Server) Cont() error { return s.current().cont() }

// Kill ends the server at once, as a crash does. It returns when it is gone.
func (s *Server) Kill() { s.current().kill() }

// Restart starts the server again, after Kill or instead of it, on the same port
// and in the same folder: what it had made durable is there again.
func (s *Server) Restart() error {
	s.Kill()
	deadline := time.Now().Add(patience)
	for {
		err := s.start()
		if !errors.Is(err, errPortTaken) || time.Now().After(deadline) {
			return err
		}
		time.Sleep(10 * pause)
	}
}

// Close ends the server and removes its folder. It may be called twice.
func (s *Server) Close() {
	s.Kill()
	_ = os.RemoveAll(s.dir)
}

func (s *Server) current() *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.process
}
