package locktest_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/renewal"
)

// sessionStore is a store with sessions, as on etcd or ZooKeeper: the server knows only the end
// of a session, in whole seconds, and a renewal of the session renews all of its leases.
type sessionStore struct {
	*memstore.Store // each lease in it ends with its session

	single  time.Duration // of the only session; 0: there is a session for each TTL
	mutants mutants

	mu       sync.Mutex // guards all below
	sessions map[time.Duration]*session
}

// mutants are mistakes that the suite must find.
type mutants struct {
	sentNow    bool // Sent is that of the Acquire although the session was renewed earlier
	noRounding bool // the server cuts off what exceeds whole seconds
	noLimits   bool // a TTL outside the limits is accepted
	staleRenew bool // Renew does not renew the session
	keepAll    bool // a lease that is no longer renewed lasts as long as its session
	mute       bool // holders are not told that others wait
	unclaimed  bool // they are told, but the store does not say that it can
}

type session struct {
	renewed, end time.Time
	leases       map[string]sessionLease // by owner
}

type sessionLease struct {
	driver.Lease
	renewed time.Time // by a Renew or Acquire for this lease
}

func newSessionStore(single time.Duration, m mutants) *sessionStore {
	return &sessionStore{Store: memstore.New(), single: single, mutants: m, sessions: make(map[time.Duration]*session)}
}

func (s *sessionStore) Describe() driver.Description {
	limits := driver.TTLLimits{Min: 2 * time.Second, Step: time.Second}
	if limits.Shared = s.single == 0; !limits.Shared {
		limits.Max, limits.Slack = s.single, s.single
	}
	all := s.Store.Describe()
	all.TTL, all.Keeps = limits, 0
	if s.mutants.unclaimed {
		all.Yields = 0
	}
	return all
}

func (s *sessionStore) Watch(l driver.Lease, wanted func()) (stop func()) {
	if s.mutants.mute {
		return func() {}
	}
	return s.Store.Watch(l, wanted)
}

func (s *sessionStore) check(r driver.Request) error {
	if err := s.Describe().TTL.Check(r.TTL); err != nil && !s.mutants.noLimits {
		return fmt.Errorf("sessionstore: %q: %w", r.Key, err)
	}
	return nil
}

// timeout returns the timeout of the session for a TTL.
func (s *sessionStore) timeout(ttl time.Duration) time.Duration {
	if s.single > 0 {
		return s.single
	}
	if s.mutants.noRounding {
		return ttl.Truncate(time.Second)
	}
	return (ttl + time.Second - 1).Truncate(time.Second)
}

// session returns the session for a TTL. It is renewed if there is none, or always. The caller
// holds mu.
func (s *sessionStore) session(ctx context.Context, ttl time.Duration, always bool) *session {
	timeout, now := s.timeout(ttl), time.Now()
	of := s.sessions[timeout]
	if of == nil || !now.Before(of.end) {
		of = &session{leases: make(map[string]sessionLease)}
		s.sessions[timeout] = of
		always = true
	}
	if !always && now.Sub(of.renewed) <= timeout/2 && now.Sub(of.renewed) <= ttl/2 {
		return of
	}
	of.renewed, of.end = now, now.Add(timeout)
	for owner, l := range of.leases {
		if !s.mutants.keepAll && now.Sub(l.renewed) >= l.TTL {
			delete(of.leases, owner)
			continue
		}
		if s.extend(ctx, of, l.Lease) != renewal.Renewed {
			delete(of.leases, owner)
		}
	}
	return of
}

// extend makes a lease end with its session.
func (s *sessionStore) extend(ctx context.Context, of *session, l driver.Lease) renewal.Outcome {
	out := make([]renewal.Outcome, 1)
	l.TTL = time.Until(of.end)
	if err := s.Store.Renew(ctx, []driver.Lease{l}, out); err != nil {
		return renewal.Unknown
	}
	return out[0]
}

func (s *sessionStore) Acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	if err := s.check(r); err != nil {
		return driver.Lease{}, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	of, asked := s.session(context.WithoutCancel(ctx), r.TTL, false), r
	asked.TTL = time.Until(of.end)
	l, err := s.Store.Acquire(ctx, asked)
	if err != nil {
		return l, err
	}
	l.Request, l.Sent = r, of.renewed
	if s.mutants.sentNow {
		l.Sent = time.Now()
	}
	of.leases[r.Owner] = sessionLease{l, time.Now()}
	return l, nil
}

func (s *sessionStore) Wait(ctx context.Context, r driver.Request, queued func()) (driver.Lease, error) {
	if err := s.check(r); err != nil {
		return driver.Lease{}, err
	}
	asked := r
	asked.TTL = s.timeout(r.TTL)
	l, err := s.Store.Wait(ctx, asked, queued)
	if err != nil {
		return l, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	ctx = context.WithoutCancel(ctx)
	l.Request = r
	of := s.session(ctx, r.TTL, true)
	if s.extend(ctx, of, l) == renewal.Renewed {
		l.Sent = of.renewed
		of.leases[r.Owner] = sessionLease{l, l.Sent}
	}
	return l, nil
}

func (s *sessionStore) Renew(ctx context.Context, batch []driver.Lease, out []renewal.Outcome) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	renewed := make(map[time.Duration]*session)
	for i, l := range batch {
		of := renewed[s.timeout(l.TTL)]
		if of == nil {
			of = s.session(ctx, l.TTL, !s.mutants.staleRenew)
			renewed[s.timeout(l.TTL)] = of
		}
		if out[i] = s.extend(ctx, of, l); out[i] == renewal.Renewed {
			of.leases[l.Owner] = sessionLease{l, time.Now()}
		}
	}
	return nil
}

func (s *sessionStore) Release(ctx context.Context, l driver.Lease) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	err := s.Store.Release(ctx, l)
	if err == nil {
		for of := range maps.Values(s.sessions) {
			delete(of.leases, l.Owner)
		}
	}
	return err
}

func (s *sessionStore) ReleaseAll(ctx context.Context, batch []driver.Lease, out []error) error {
	for i := range batch {
		out[i] = s.Release(ctx, batch[i])
	}
	return nil
}

func testSessions(t *testing.T, ttl, single time.Duration, m mutants) {
	locktest.TestStore(t, locktest.Config{
		New:      func(*testing.T) driver.Store { return newSessionStore(single, m) },
		TTL:      ttl,
		Explains: true,
		Run:      synctest.Test,
		Modes:    locktest.AllModes,
		Waiting: func(_ *testing.T, s driver.Store, key string) int {
			return s.(*sessionStore).Waiting(key)
		},
		Delete: func(_ *testing.T, s driver.Store, key string) { s.(*sessionStore).Delete(key) },
	})
}

func TestAStoreWithASessionForEachTTL(t *testing.T) { testSessions(t, 30*time.Second, 0, mutants{}) }

func TestAStoreWithOneSession(t *testing.T) {
	testSessions(t, 30*time.Second, 30*time.Second, mutants{})
}

func TestAStoreWithALongSession(t *testing.T) {
	testSessions(t, 10*time.Second, 45*time.Second, mutants{})
}

// mutantVariable names the mutant that the test runs in a process of its own.
const mutantVariable = "LOCKTEST_MUTANT"

// sessionMutants are the mistakes, each with a case that must find it.
var sessionMutants = map[string]struct {
	mutants mutants
	foundBy string
}{
	"sent now":    {mutants{sentNow: true}, "S1_a_lease_of_an_old_session_lasts_its_TTL"},
	"no rounding": {mutants{noRounding: true}, "L2_a_TTL_between_two_steps_lasts"},
	"no limits":   {mutants{noLimits: true}, "a_TTL_outside_the_limits_is_refused"},
	"stale renew": {mutants{staleRenew: true}, "S1_a_lease_of_an_old_session_lasts_its_TTL"},
	"keep all":    {mutants{keepAll: true}, "L2_a_lease_ends_while_others_are_renewed"},
	"mute":        {mutants{mute: true}, "a_store_tells_holders_in_the_modes_that_it_says"},
	"unclaimed":   {mutants{unclaimed: true}, "a_store_tells_holders_in_the_modes_that_it_says"},
}

func TestTheSuiteFindsTheMistakesOfSessions(t *testing.T) {
	if name := os.Getenv(mutantVariable); name != "" {
		testSessions(t, 30*time.Second, 0, sessionMutants[name].mutants)
		return
	}
	for name, mutant := range sessionMutants {
		t.Run(name, func(t *testing.T) {
			c := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestTheSuiteFindsTheMistakesOfSessions$")
			c.Env = append(os.Environ(), mutantVariable+"="+name)
			output, err := c.CombinedOutput()
			var failed *exec.ExitError
			require.ErrorAs(t, err, &failed, "the suite must fail")
			assert.Contains(t, string(output), "--- FAIL: TestTheSuiteFindsTheMistakesOfSessions/"+mutant.foundBy)
		})
	}
}
