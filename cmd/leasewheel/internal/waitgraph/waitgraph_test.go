package waitgraph_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/cmd/leasewheel/internal/waitgraph"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// scene is a set of clients on one store.
type scene struct {
	t       *testing.T
	mem     *memstore.Store
	look    func(key string) error // called before each Inspect, if not nil
	looked  func()                 // called after each Inspect, if not nil
	clients map[string]*lock.Client
	waiters sync.WaitGroup
	cancel  context.CancelFunc // of all waiters
	ctx     context.Context    // the same
}

// clientStore is the store of one client of a scene. It does not close the store of the others.
type clientStore struct {
	*memstore.Store
	*scene
}

func (clientStore) Shutdown(context.Context) error { return nil }

func (s clientStore) Inspect(ctx context.Context, key string) (driver.Info, error) {
	if s.look != nil {
		if err := s.look(key); err != nil {
			return driver.Info{}, err
		}
	}
	info, err := s.Store.Inspect(ctx, key)
	if s.looked != nil {
		s.looked()
	}
	return info, err
}

func bubble(t *testing.T, test func(t *testing.T, s *scene)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := &scene{t: t, mem: memstore.New(), clients: make(map[string]*lock.Client)}
		s.ctx, s.cancel = context.WithCancel(context.Background())
		defer func() {
			s.cancel()
			s.waiters.Wait()
			for _, c := range s.clients {
				require.NoError(t, c.Close(context.Background()))
			}
			require.NoError(t, s.mem.Close())
		}()
		test(t, s)
	})
}

// client returns the client with a name, which its locks have as their metadata.
func (s *scene) client(name string) *lock.Client {
	s.t.Helper()
	if c := s.clients[name]; c != nil {
		return c
	}
	c, err := lock.New(clientStore{s.mem, s}, &lock.Options{Terms: lock.Terms{Metadata: name}})
	require.NoError(s.t, err)
	s.clients[name] = c
	return c
}

func (s *scene) hold(l lock.Locker) *lock.Held {
	s.t.Helper()
	h, err := l.TryLock(context.Background())
	require.NoError(s.t, err)
	return h
}

// wait begins to wait for a lock, and returns when the call is in the queue. If it gets the
// lock, it unlocks it at once.
func (s *scene) wait(l lock.Locker) {
	s.waiters.Go(func() {
		if h, err := l.Lock(s.ctx); err == nil {
			h.Unlock(context.Background())
		}
	})
	synctest.Wait()
}

// cycles returns the cycles, each as the names and keys in turn, beginning with the lowest name.
func (s *scene) cycles() []string {
	t := s.t
	t.Helper()
	cycles, err := waitgraph.Cycles(context.Background(), s.client("observer"), "")
	require.NoError(t, err)
	var all []string
	for _, c := range cycles {
		first := 0
		for i, w := range c {
			next := c[(i+1)%len(c)]
			assert.Equal(t, next.Waiter.Client, w.Holder.Client, "the wait ends at the client of the next one")
			assert.LessOrEqual(t, c[0].Waiter.Client, w.Waiter.Client, "the client with the least name is the first")
			if w.Waiter.Metadata < c[first].Waiter.Metadata {
				first = i
			}
		}
		var words []string
		for i := range c {
			w := c[(first+i)%len(c)]
			words = append(words, w.Waiter.Metadata, w.Key)
		}
		all = append(all, strings.Join(words, " "))
	}
	return all
}

func TestTwoClientsThatWaitForEachOther(t *testing.T) {
	bubble(t, func(t *testing.T, s *scene) {
		a, b := s.client("a"), s.client("b")
		s.hold(a.Mutex("k1"))
		held := s.hold(b.Mutex("k2"))
		s.hold(b.Mutex("k3"))
		s.wait(a.Mutex("k2"))
		s.wait(a.Mutex("k3"))
		assert.Empty(t, s.cycles(), "b waits for nothing")
		s.wait(b.Mutex("k1"))
		assert.Equal(t, []string{"a k2 b k1"}, s.cycles(), "one for each client")

		cycles, err := waitgraph.Cycles(context.Background(), a, "k")
		require.NoError(t, err)
		require.Len(t, cycles, 1)
		for _, w := range cycles[0] {
			assert.Equal(t, driver.Exclusive, w.Waiter.Mode)
			assert.Equal(t, 30*time.Second, w.Holder.ExpiresIn)
			assert.NotEqual(t, w.Waiter.Metadata, w.Holder.Metadata)
			if w.Key == "k2" {
				assert.Equal(t, held.Token(), w.Holder.Token)
			}
		}
		cycles, err = waitgraph.Cycles(context.Background(), a, "k1")
		require.NoError(t, err)
		assert.Empty(t, cycles, "the other keys do not begin with the prefix")

		require.NoError(t, held.Unlock(context.Background()))
		synctest.Wait()
		assert.Equal(t, []string{"a k3 b k1"}, s.cycles())
	})
}

func TestThreeClientsAndAnInnocentOne(t *testing.T) {
	bubble(t, func(t *testing.T, s *scene) {
		for _, name := range []string{"a", "b", "c", "d"} {
			s.hold(s.client(name).Mutex("of " + name))
		}
		s.wait(s.client("a").Mutex("of b"))
		s.wait(s.client("b").Mutex("of c"))
		s.wait(s.client("d").Mutex("of a")) // waits for a cycle, and is in none
		s.wait(s.client("e").Mutex("of a")) // holds nothing
		assert.Empty(t, s.cycles())
		s.wait(s.client("c").Mutex("of a"))
		assert.Equal(t, []string{"a of b b of c c of a"}, s.cycles(), "c waits behind d and e")
	})
}

// Two goroutines of one process may contend, so this may be harmless.
func TestAClientThatWaitsForItself(t *testing.T) {
	bubble(t, func(t *testing.T, s *scene) {
		a, b := s.client("a"), s.client("b")
		s.hold(a.Mutex("k1"))
		s.hold(b.Mutex("k2"))
		s.wait(a.Mutex("k1"))
		assert.Equal(t, []string{"a k1"}, s.cycles())
		s.wait(a.Mutex("k2"))
		s.wait(b.Mutex("k1"))
		assert.Equal(t, []string{"a k2 b k1", "a k1"}, s.cycles(), "cycles of several clients come first")
	})
}

func TestReadersAndWriters(t *testing.T) {
	bubble(t, func(t *testing.T, s *scene) {
		a, b := s.client("a"), s.client("b")
		s.hold(a.RWMutex("rw").RLocker())
		s.hold(b.RWMutex("rw").RLocker())
		s.wait(a.RWMutex("rw"))
		s.wait(b.RWMutex("rw"))
		assert.ElementsMatch(t, []string{"a rw b rw", "a rw", "b rw"}, s.cycles(), "two readers that want to write")
	})
	bubble(t, func(t *testing.T, s *scene) {
		a, b := s.client("a"), s.client("b")
		s.hold(a.RWMutex("rw").RLocker())
		s.hold(b.Mutex("k"))
		s.wait(a.Mutex("k"))
		s.wait(s.client("writer").RWMutex("rw"))
		assert.Empty(t, s.cycles())
		s.wait(b.RWMutex("rw").RLocker())
		assert.Equal(t, []string{"a k b rw"}, s.cycles(), "a reader waits behind a writer")
	})
}

// A waiter for a permit needs any of the holders, so the others must be blocked too.
func TestPermitsOfBlockedAndFreeHolders(t *testing.T) {
	bubble(t, func(t *testing.T, s *scene) {
		a, b, c := s.client("a"), s.client("b"), s.client("c")
		s.hold(a.Mutex("k"))
		s.hold(b.Semaphore("s", 2))
		s.hold(c.Semaphore("s", 2))
		s.wait(a.Semaphore("s", 2))
		s.wait(b.Mutex("k"))
		assert.Empty(t, s.cycles(), "c may unlock")
		s.wait(c.Mutex("k"))
		assert.ElementsMatch(t, []string{"a s b k", "a s c k"}, s.cycles())
	})
}

func TestBatchesOfBlockedAndFreeHolders(t *testing.T) {
	bubble(t, func(t *testing.T, s *scene) {
		a, b, c := s.client("a"), s.client("b"), s.client("c")
		s.hold(a.Mutex("k"))
		s.hold(b.Batch("s", "x"))
		free := s.hold(c.Batch("s", "y"))
		s.wait(a.Batch("s", "x", "y"))
		s.wait(b.Mutex("k"))
		assert.Empty(t, s.cycles(), "it is not known which members block a")
		require.NoError(t, free.Unlock(context.Background()))
		synctest.Wait()
		assert.Equal(t, []string{"a s b k"}, s.cycles())
	})
}

// before sets a function that is called before the second look at a key.
func (s *scene) before(key string, f func()) {
	looks := 0
	s.look = func(k string) error {
		if k == key { // one look at a time
			if looks++; looks == 2 {
				f()
			}
		}
		return nil
	}
}

// A cycle that is gone at the second look is not reported.
func TestACycleThatDissolves(t *testing.T) {
	dissolve := func(change func(t *testing.T, s *scene, held *lock.Held)) {
		bubble(t, func(t *testing.T, s *scene) {
			a, b := s.client("a"), s.client("b")
			s.hold(a.Mutex("k1"))
			held := s.hold(b.Mutex("k2"))
			s.wait(a.Mutex("k2"))
			s.wait(b.Mutex("k1"))
			s.before("k2", func() { change(t, s, held) })
			assert.Empty(t, s.cycles())
			s.look = nil
		})
	}
	unlock := func(t *testing.T, held *lock.Held) {
		assert.NoError(t, held.Unlock(context.Background()))
		synctest.Wait()
	}
	dissolve(func(t *testing.T, s *scene, held *lock.Held) { unlock(t, held) })
	dissolve(func(t *testing.T, s *scene, held *lock.Held) { // b has the lock again, and a waits again
		unlock(t, held)
		s.hold(s.client("b").Mutex("k2"))
		s.wait(s.client("a").Mutex("k2"))
	})
	dissolve(func(t *testing.T, s *scene, _ *lock.Held) { // the calls give up
		s.cancel()
		synctest.Wait()
	})
}

func TestCallsThatFail(t *testing.T) {
	errIO := errors.New("connection reset")
	bubble(t, func(t *testing.T, s *scene) {
		ctx, c := context.Background(), s.client("a")
		fails := func(want error, ctx context.Context, c *lock.Client, prefix string) {
			t.Helper()
			cycles, err := waitgraph.Cycles(ctx, c, prefix)
			require.ErrorIs(t, err, want)
			assert.Nil(t, cycles)
		}
		fails(lock.ErrBadKey, ctx, c, strings.Repeat("x", driver.MaxKeyLen+1))

		for _, k := range []string{"k1", "k2", "k3"} {
			s.hold(c.Mutex(k))
			s.wait(c.Mutex(k))
		}
		ended, cancel := context.WithCancelCause(ctx)
		s.look = func(string) error { cancel(errIO); return nil }
		fails(errIO, ended, c, "")
		s.look = nil
		ended, cancel = context.WithCancelCause(ctx)
		s.looked = func() { cancel(errIO) }
		fails(errIO, ended, c, "k1") // it ends between the two looks
		s.looked = nil
		s.look = func(key string) error {
			if key == "k2" {
				return errIO
			}
			return nil
		}
		fails(errIO, ctx, c, "")
		s.look = func(key string) error {
			if key == "k1" {
				return driver.ErrWrongType
			}
			return nil
		}
		assert.Equal(t, []string{"a k2"}, s.cycles(), "other data are skipped")
		s.look = nil
		require.NoError(t, c.Close(ctx))
		fails(lock.ErrClosed, ctx, c, "")
	})
}
