// The store of a process, which sends requests over the network.

package core

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/internal/simrand"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/verify/sim"
)

// store is the store of one process. It sends requests to the server over the network.
type store struct {
	driver.Base

	process *process

	mu        sync.Mutex // guards the fields below
	sent      map[string]int
	failed    map[string]bool        // by owner: whether its latest request failed
	listeners map[string]chan uint64 // by owner: receives the tokens of signals
	report    func(renewal.Event)
	closed    bool
	closing   chan struct{}
}

// requestTimeout is not a round number, so that it does not end at the instant of another event.
const requestTimeout = 2_500_000_123 * time.Nanosecond

func newStore(p *process) *store {
	return &store{
		process: p,
		sent:    make(map[string]int), failed: make(map[string]bool),
		listeners: make(map[string]chan uint64), closing: make(chan struct{}),
	}
}

// send numbers a message, draws its fate and sends it.
func (s *store) send(ctx context.Context, timeout time.Duration, op string, owners []string, execute func(fate) any) (any, error) {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, lock.ErrClosed
	}
	name := op + " " + owners[0]
	s.sent[name]++
	m := message{op, owners[0], s.sent[name]}
	f := s.process.fateOf(m)
	again := slices.ContainsFunc(owners, func(owner string) bool { return s.failed[owner] })
	if s.process.backend.plan.class == single && again {
		f.Fate = sim.Fate{Out: f.Out, Back: f.Back}
	}
	for _, owner := range owners {
		s.failed[owner] = f.Name != ""
	}
	s.mu.Unlock()
	s.process.backend.sending(s.process, m, len(owners), f)
	return s.process.call(ctx, timeout, m, f, func() any { return execute(f) })
}

// Acquire implements driver.Store.
func (s *store) Acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	a, _, err := s.ask(ctx, "acquire", r, 0)
	switch {
	case err != nil:
		return driver.Lease{}, err
	case a.verdict == taken:
		return driver.Lease{}, &lock.HeldError{Key: r.Key, ExpiresIn: a.expiresIn}
	case a.verdict == refused:
		return driver.Lease{}, errGivenUp
	}
	return driver.Lease{Request: r, Token: a.token}, nil
}

var errGivenUp = fmt.Errorf("sim: %w: the acquisition was given up", lock.ErrNotAcquired)

// ask sends an acquire. It returns the answer, and when the request was sent.
func (s *store) ask(ctx context.Context, op string, r driver.Request, place time.Duration) (answer, time.Time, error) {
	sent := time.Now()
	got, err := s.send(ctx, requestTimeout, op, []string{r.Owner}, func(fate) any {
		return s.process.backend.server.acquire(r.Key, r.Owner, r.TTL, place)
	})
	if err != nil {
		return answer{}, sent, err
	}
	return got.(answer), sent, nil
}

// Renew implements renewal.Renewer.
func (s *store) Renew(ctx context.Context, batch []driver.Lease, out []renewal.Outcome) error {
	b, leases := s.process.backend, slices.Clone(batch)
	var owners []string
	for _, l := range leases {
		owners = append(owners, l.Owner)
	}
	got, err := s.send(ctx, time.Hour, "renew", owners, func(f fate) any {
		return b.server.renewAll(leases, f.rand, b.odds().partial)
	})
	if err != nil {
		return err
	}
	copy(out, got.([]renewal.Outcome))
	if slices.Contains(out, renewal.Unknown) {
		return errReset
	}
	return nil
}

// renewAll renews a batch. Some of its leases may get no answer.
func (s *server) renewAll(batch []driver.Lease, d simrand.Rand, partial int) []renewal.Outcome {
	out := make([]renewal.Outcome, len(batch))
	for i, l := range batch {
		held := s.renew(l.Key, l.Owner, l.Token, l.TTL)
		switch unanswered := partial > 0 && d.Chance(partial); {
		case unanswered:
		case held:
			out[i] = renewal.Renewed
		default:
			out[i] = renewal.Lost
		}
	}
	return out
}

// Describe implements driver.Store.
func (s *store) Describe() driver.Description {
	return driver.Description{Waits: s.process.backend.plan.Queue, Keeps: driver.ModesOf(driver.Exclusive)}
}

// ReportEvents implements driver.Store.
func (s *store) ReportEvents(report func(renewal.Event)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.report = report
}

// suspect reports that leases may be lost, as a store does whose connection has ended.
func (s *store) suspect() {
	s.mu.Lock()
	report := s.report
	s.mu.Unlock()
	if report != nil {
		report(renewal.Event{Kind: renewal.EventVerify})
	}
}

// Release implements driver.Store.
func (s *store) Release(ctx context.Context, l driver.Lease) error {
	keep := l.Keep()
	got, err := s.send(ctx, requestTimeout, "release", []string{l.Owner}, func(fate) any {
		return s.process.backend.server.release(l.Key, l.Owner, l.Unanswered, keep)
	})
	switch {
	case err != nil:
		return err
	case !got.(bool):
		return lock.ErrNotHeld
	}
	return nil
}

var errClosedTwice = errors.New("sim: the store was closed twice")

// Shutdown implements driver.Store.
func (s *store) Shutdown(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return errClosedTwice
	}
	s.closed = true
	close(s.closing)
	return nil
}
