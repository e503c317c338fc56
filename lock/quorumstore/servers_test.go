package quorumstore_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/lock/quorumstore"
	"github.com/leasewheel/leasewheel/renewal"
)

// servers are the members of a quorum, each with its own faults.
type servers []*server

type server struct {
	*locktest.Faulty
	mem           *memstore.Store
	own           driver.Store // mem with its own tokens
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
	s.own = ownTokens{s.mem, tokenRanges.Add(1) << 40}
	s.Faulty = (&locktest.Faulty{Before: by(&s.before), After: by(&s.after)}).Over(s.own)
	return s
}

var tokenRanges atomic.Uint64

// ownTokens is a store with its own range of tokens. In a bubble all clocks agree, and a
// quorum would otherwise have to probe servers with equal tokens.
type ownTokens struct {
	*memstore.Store
	above uint64
}

func (s ownTokens) Acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	l, err := s.Store.Acquire(ctx, r)
	l.Token += s.above
	return l, err
}

func (s ownTokens) Renew(ctx context.Context, batch []driver.Lease, out []renewal.Outcome) error {
	batch = slices.Clone(batch)
	for i := range batch {
		batch[i].Token -= s.above
	}
	return s.Store.Renew(ctx, batch, out)
}

func (s ownTokens) SetMetadata(ctx context.Context, l driver.Lease, metadata string) error {
	l.Token -= s.above
	return s.Store.SetMetadata(ctx, l, metadata)
}

// losesRequests makes requests fail before they are executed, and losesAnswers
// afterwards. A nil fault ends this.
func (s *server) losesRequests(f fault) { s.before.Store(&f) }
func (s *server) losesAnswers(f fault)  { s.after.Store(&f) }

// newServers returns n servers and a quorum of them, which the test closes.
func newServers(t *testing.T, n int) (servers, *quorumstore.Store) {
	t.Helper()
	var all servers
	for range n {
		all = append(all, newServer())
	}
	return all, all.quorum(t)
}

// unclosed is a server that outlives its quorums.
type unclosed struct{ driver.Store }

func (unclosed) Shutdown(context.Context) error { return nil }

func (s servers) quorum(t *testing.T) *quorumstore.Store {
	t.Helper()
	stores := make([]driver.Store, len(s))
	for i := range s {
		stores[i] = unclosed{s[i].Faulty}
	}
	q, err := quorumstore.New(stores...)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, q.Close()) })
	return q
}

// holding returns the number of servers with a holder of a key.
func (s servers) holding(key string) int {
	n := 0
	for _, one := range s {
		if one.mem.ExpiresIn(key) > 0 {
			n++
		}
	}
	return n
}

// delete removes a key from all servers, without the knowledge of its holders.
func (s servers) delete(key string) {
	for _, one := range s {
		one.mem.Delete(key)
	}
}

// fail makes the first n servers apply the fault to every operation.
func (s servers) fail(n int, f fault) {
	for _, one := range s[:n] {
		one.losesRequests(f)
	}
}

func down(context.Context, locktest.Op) error { return errIO }

// mute is the fault of a server that does not answer.
func mute(ctx context.Context, _ locktest.Op) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

// slow is the fault of a server that answers after d.
func slow(d time.Duration) fault {
	return func(context.Context, locktest.Op) error {
		time.Sleep(d)
		return nil
	}
}

func request(key, owner string) driver.Request {
	return driver.Request{Key: key, Owner: owner, TTL: ttl}
}

// acquire acquires a lock, and waits for all servers that answer at once.
func acquire(t *testing.T, s driver.Store, key, owner string) driver.Lease {
	t.Helper()
	l, err := s.Acquire(context.Background(), request(key, owner))
	require.NoError(t, err)
	synctest.Wait()
	return l
}

func renew(t *testing.T, s driver.Store, leases ...driver.Lease) []renewal.Outcome {
	t.Helper()
	out := make([]renewal.Outcome, len(leases))
	require.NoError(t, s.Renew(context.Background(), leases, out))
	for i := range out {
		if out[i].IsLost() {
			out[i] = renewal.Lost
		}
	}
	return out
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const ttl = 30 * time.Second

var (
	errIO = errors.New("connection reset")
	ctx   = context.Background()
)

func settle(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// dice is a random number generator that several goroutines can use.
type dice struct {
	mu  sync.Mutex // guards rng
	rng *rand.Rand
}

func newDice(seed uint64) *dice { return &dice{rng: rand.New(rand.NewPCG(seed, 0))} }

func (d *dice) roll(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.IntN(n)
}

// once returns a fault that fails the first call of an operation.
func once(op locktest.Op, err error) func(context.Context, locktest.Op) error {
	var mu sync.Mutex // guards done
	done := false
	return func(_ context.Context, got locktest.Op) error {
		mu.Lock()
		defer mu.Unlock()
		if got != op || done {
			return nil
		}
		done = true
		return err
	}
}

// silent is a store whose Renew leaves all outcomes Unknown.
type silent struct{ driver.Store }

func (silent) Renew(context.Context, []driver.Lease, []renewal.Outcome) error { return nil }
