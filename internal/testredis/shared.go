// One server for all tests of a package.

package testredis

import (
	"sync"
	"testing"
)

// Shared is one server for all tests of a package, which use different keys. It starts with
// the first call of Server and ends after the last test:
//
//	var shared testredis.Shared
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Around(m)) }
type Shared struct {
	Args []string // of redis-server

	once   sync.Once
	server *Server
	err    error
}

// Server returns the server, or fails the test.
func (s *Shared) Server(t testing.TB) *Server {
	t.Helper()
	s.once.Do(func() { s.server, s.err = Launch(s.Args...) })
	if s.err != nil {
		t.Fatal(s.err)
	}
	return s.server
}

// Around returns a Runner that runs m and then closes the server.
func (s *Shared) Around(m Runner) Runner { return around{m, s} }

// Runner is the interface of a *testing.M.
type Runner interface{ Run() int }

type around struct {
	Runner
	shared *Shared
}

// Run implements Runner.
func (a around) Run() int {
	defer func() {
		if a.shared.server != nil {
			a.shared.server.Close()
		}
	}()
	return a.Runner.Run()
}
