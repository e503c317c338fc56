package lock_test

import (
	"context"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/renewal"
)

// servers are members of a quorum, each with faults of its own.
type servers []*server

type server struct {
	*locktest.Faulty
	mem           *memstore.Store
	before, after atomic.Pointer[fault]
}

type fault = func(ctx context.Context, op locktest.Op) error

func newServer() *server {
	s := &server{mem: memstore.New()}
	by := func(f *atomic.Pointer[fault]) fault {
		return func(ctx context.Context, op locktest.Op) error {
			if f := f.Load(); f != nil && *f != nil {
				return (*f)(ctx, op)
			}
			return nil
		}
	}
	s.Faulty = &locktest.Faulty{Store: s.mem, Before: by(&s.before), After: by(&s.after)}
	return s
}

// loses has requests fail before they are executed, answers afterwards. nil heals.
func (s *server) losesRequests(f fault) { s.before.Store(&f) }
func (s *server) losesAnswers(f fault)  { s.after.Store(&f) }

// newServers returns n servers and a quorum of them, which the test closes.
func newServers(t *testing.T, n int) (servers, lock.Store) {
	t.Helper()
	var all servers
	for range n {
		all = append(all, newServer())
	}
	return all, all.quorum(t)
}

func (s servers) quorum(t *testing.T) lock.Store {
	t.Helper()
	stores := make([]lock.Store, len(s))
	for i := range s {
		stores[i] = struct { // which outlives this quorum
			lock.Store
			lock.Inspector
		}{s[i].Faulty, s[i].Faulty}
	}
	q, err := lock.Quorum(stores...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, closeStore(q)) })
	return q
}

func closeStore(s lock.Store) error { return s.(interface{ Close() error }).Close() }

// holding returns how many servers hold a key.
func (s servers) holding(key string) int {
	n := 0
	for _, one := range s {
		if one.mem.ExpiresIn(key) > 0 {
			n++
		}
	}
	return n
}

// delete takes a key away behind the backs of all.
func (s servers) delete(key string) {
	for _, one := range s {
		one.mem.Delete(key)
	}
}

// fail has the first n servers answer every operation so.
func (s servers) fail(n int, f fault) {
	for _, one := range s[:n] {
		one.losesRequests(f)
	}
}

func down(context.Context, locktest.Op) error { return errIO }

// mute is a server that does not answer.
func mute(ctx context.Context, _ locktest.Op) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// slow is a server that takes its time.
func slow(d time.Duration) fault {
	return func(context.Context, locktest.Op) error {
		time.Sleep(d)
		return nil
	}
}

func request(key, owner string) lock.Request { return lock.Request{Key: key, Owner: owner, TTL: ttl} }

// acquire gets a lock, and waits for all servers that answer at once.
func acquire(t *testing.T, s lock.Store, key, owner string) lock.Lease {
	t.Helper()
	l, err := s.Acquire(context.Background(), request(key, owner))
	require.NoError(t, err)
	synctest.Wait()
	return l
}

func renew(t *testing.T, s lock.Store, leases ...lock.Lease) []renewal.Outcome {
	t.Helper()
	out := make([]renewal.Outcome, len(leases))
	require.NoError(t, s.Renew(context.Background(), leases, out))
	return out
}
