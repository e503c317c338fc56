// Server, a store that hangs or fails when a test orders it.

package faulttest

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// Server is a store in front of another one, such as a memstore, for tests of what a program does while
// the server of its locks hangs or fails. It never blocks a synctest bubble for ever. It is safe for
// concurrent use.
type Server struct {
	driver.Store

	mu   sync.Mutex    // guards the fields below
	err  error         // of each call
	over chan struct{} // is closed when the server hangs no longer; nil if it does not hang
}

// NewServer returns a Server in front of the store, which works. Make it in the bubble that uses it.
func NewServer(store driver.Store) *Server {
	s := new(Server)
	s.Store = driver.Wrap(store, s.around)
	return s
}

// Hang makes the server give no answers. A call ends with its ctx, after Resume or Fail, or with an error after
// 3 s, which is also the default of a client of Redis.
func (s *Server) Hang() { s.set(nil, make(chan struct{})) }

// Fail makes each call fail with err, which is not nil, and nothing is executed.
func (s *Server) Fail(err error) { s.set(err, nil) }

// Resume ends Hang and Fail. Calls that hang are executed then.
func (s *Server) Resume() { s.set(nil, nil) }

func (s *Server) set(err error, over chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over != nil {
		close(s.over)
	}
	s.err, s.over = err, over
}

const hangs = 3 * time.Second

var errNoAnswer = errors.New("faulttest: the server hangs: no answer within 3s")

// await returns when the server works, or the error of the call.
func (s *Server) await(ctx context.Context) error {
	late := time.NewTimer(hangs)
	defer late.Stop()
	for {
		s.mu.Lock()
		err, over := s.err, s.over
		s.mu.Unlock()
		if err != nil || over == nil {
			return err
		}
		select {
		case <-over:
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-late.C:
			return errNoAnswer
		}
	}
}

// around holds back a request and its answer.
func (s *Server) around(ctx context.Context, c *driver.Call, next func(context.Context) error) error {
	lost := s.await(ctx)
	if lost == nil {
		err := next(ctx)
		if lost = s.await(ctx); lost == nil {
			return err
		}
	}
	c.Granted = driver.Lease{Unanswered: c.Name == "wait"}
	clear(c.Outcomes)
	return lost
}
