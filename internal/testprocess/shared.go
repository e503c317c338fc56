// One server for all tests of a package, and servers that are not installed.

package testprocess

import (
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"testing"
)

// Server is a server of a test binary.
type Server interface{ Close() }

// Shared is one server for all tests of a package. It starts with the first call of Get and
// ends after the last test:
//
//	var postgres = testprocess.Shared[*testsql.Postgres]{Launch: func() (*testsql.Postgres, error) { return testsql.LaunchPostgres() }}
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(testprocess.Around(m, &postgres)) }
type Shared[S Server] struct {
	Launch func() (S, error)

	once    sync.Once
	started bool
	server  S
	err     error
}

// Get returns the server. If the program is not installed, Get skips the test, or fails it if
// the environment variable CI is set.
func (s *Shared[S]) Get(t testing.TB) S {
	t.Helper()
	server, err := s.Try()
	Check(t, err)
	return server
}

// Try returns the server, or why there is none.
func (s *Shared[S]) Try() (S, error) { return s.TryWith(s.Launch) }

// TryWith is Try with another function than Launch.
func (s *Shared[S]) TryWith(launch func() (S, error)) (S, error) {
	s.once.Do(func() {
		s.server, s.err = launch()
		s.started = s.err == nil
	})
	return s.server, s.err
}

// Check skips the test if err is a MissingError and the environment variable CI is not set, and
// fails it for any other error.
func Check(t testing.TB, err error) {
	t.Helper()
	if IsMissing(err) {
		t.Skipf("NOT TESTED: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// MissingError means that a program of a server is not installed.
type MissingError struct{ Server, Program string }

func (e *MissingError) Error() string {
	return fmt.Sprintf("%s: %s is not installed; make setup-stores installs it", e.Server, e.Program)
}

// IsMissing reports whether err is a MissingError and the environment variable CI is not set. It prints
// a warning the first time for each server, because go test shows a skipped test with -v only.
func IsMissing(err error) bool {
	var missing *MissingError
	if !errors.As(err, &missing) || os.Getenv("CI") != "" {
		return false
	}
	warnings.warn(missing)
	return true
}

// warner prints a line for each server that is missing, once.
type warner struct {
	out io.Writer

	mu     sync.Mutex // guards warned
	warned map[string]bool
}

var warnings = warner{out: os.Stdout}

func (w *warner) warn(missing *MissingError) {
	w.mu.Lock()
	known := w.warned[missing.Server]
	if w.warned == nil {
		w.warned = map[string]bool{}
	}
	w.warned[missing.Server] = true
	w.mu.Unlock()
	if !known {
		fmt.Fprintf(w.out, "WARNING: NOT TESTED ON %s, because %s is missing\n", missing.Server, missing.Program)
	}
}

// Close ends the server if it has started.
func (s *Shared[S]) Close() {
	if s.started {
		s.server.Close()
	}
}

// Around returns a runner that runs m and then closes servers, each a Shared.
func Around(m Runner, servers ...Server) Runner { return around{m, servers} }

// Runner is the interface of a *testing.M.
type Runner interface{ Run() int }

type around struct {
	Runner
	servers []Server
}

// Run implements Runner.
func (a around) Run() int {
	defer func() {
		for _, s := range a.servers {
			s.Close()
		}
	}()
	return a.Runner.Run()
}
