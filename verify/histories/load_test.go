package histories

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/renewal"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ttl = 300 * time.Millisecond

// fakeStore is a store that can be down, and that a test can make wrong. It has no queue.
type fakeStore struct {
	driver.Store
	down    atomic.Bool
	acquire func(ctx context.Context, r driver.Request) (driver.Lease, error) // instead of that of the Store
}

func newFakeStore() *fakeStore {
	s := &fakeStore{Store: locktest.Plain(memstore.New())}
	s.acquire = s.Store.Acquire
	return s
}

func (s *fakeStore) Acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	if s.down.Load() {
		return driver.Lease{}, errDown
	}
	return s.acquire(ctx, r)
}

func (s *fakeStore) Renew(ctx context.Context, batch []driver.Lease, out []renewal.Outcome) error {
	if s.down.Load() {
		return errDown
	}
	return s.Store.Renew(ctx, batch, out)
}

var errDown = errors.New("the store is down")

// load starts a load of two clients of s.
func (s *fakeStore) load(t *testing.T) *Load {
	t.Helper()
	return NewLoad(t, ttl, s.clients(t)...)
}

func (s *fakeStore) clients(t *testing.T) []*lock.Client {
	t.Helper()
	var clients []*lock.Client
	for range 2 {
		c, err := lock.New(s, &lock.Options{Terms: lock.Terms{TTL: ttl}, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, c.Close(context.Background())) })
		clients = append(clients, c)
	}
	return clients
}

func TestALoadOverAnOutageIsLinearizable(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	l := s.load(t)
	l.Progress()
	l.Renewed(0)
	l.Renewed(1)
	l.Fault(func() {
		s.down.Store(true)
		l.Told()
		s.down.Store(false)
	})
	l.Progress()
	l.Stop()
	assert.NotEmpty(t, l.lost)
	granted, refused := 0, 0
	for _, of := range l.history.keys {
		for _, t := range of {
			switch {
			case t.Outcome == Granted:
				granted++
			case t.Outcome == Taken && t.Replied < l.history.calm:
				refused++
			}
		}
	}
	assert.NotZero(t, granted)
	assert.NotZero(t, refused, "before the first fault")
}

func TestALoadOfReadersAndWriters(t *testing.T) {
	t.Parallel()
	s := newFakeStore()
	l := NewRWLoad(t, ttl, s.clients(t)...)
	l.Progress()
	l.Renewed(0)
	l.Renewed(1)
	l.Stop()
	of := map[bool]int{}
	for _, key := range l.history.keys {
		for _, t := range key {
			if t.Outcome == Granted {
				of[t.Reads]++
			}
		}
	}
	assert.NotZero(t, of[true], "readers")
	assert.NotZero(t, of[false], "writers")
}

func TestALoadOnAWrongStoreIsNot(t *testing.T) {
	for name, wrong := range map[string]func(s *fakeStore) func(context.Context, driver.Request) (driver.Lease, error){
		"it grants a taken lock": func(s *fakeStore) func(context.Context, driver.Request) (driver.Lease, error) {
			var token atomic.Uint64
			return func(ctx context.Context, r driver.Request) (driver.Lease, error) {
				if lease, err := s.Store.Acquire(ctx, r); err == nil {
					token.Store(max(token.Load(), lease.Token))
					return lease, nil
				}
				return driver.Lease{Request: r, Token: token.Add(1)}, nil
			}
		},
		"its tokens fall": func(s *fakeStore) func(context.Context, driver.Request) (driver.Lease, error) {
			return func(ctx context.Context, r driver.Request) (driver.Lease, error) {
				lease, err := s.Store.Acquire(ctx, r)
				lease.Token = 1<<63 - lease.Token
				return lease, err
			}
		},
		"it refuses a free lock": func(s *fakeStore) func(context.Context, driver.Request) (driver.Lease, error) {
			var calls atomic.Int64
			return func(ctx context.Context, r driver.Request) (driver.Lease, error) {
				if calls.Add(1)%2 == 0 {
					return driver.Lease{}, &driver.HeldError{Key: r.Key}
				}
				return s.Store.Acquire(ctx, r)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var found []string
			for run := 0; run < 10 && len(found) == 0; run++ { // not every load meets the fault on a busy machine
				s := newFakeStore()
				s.acquire = wrong(s)
				l := s.load(t)
				for range 4 { // long enough for some calls of TryLock
					l.Progress()
				}
				l.stop()
				found = l.history.Violations(Locks)
			}
			assert.NotEmpty(t, found)
		})
	}
}
