package lock_test

import (
	"bytes"
	"context"
	"log/slog"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/wheel"
)

// syncBuffer is a buffer that is safe for concurrent use.
type syncBuffer struct {
	mu sync.Mutex // guards b
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

func (s *syncBuffer) logger() *slog.Logger { return slog.New(slog.NewTextHandler(s, nil)) }

// collectUntil runs the garbage collector until the condition holds. The cleanups of the
// runtime run outside any bubble, so these tests are in real time.
func collectUntil(t *testing.T, cond func() bool) {
	t.Helper()
	deadline := time.After(20 * time.Second)
	for !cond() {
		select {
		case <-deadline:
			require.Fail(t, "the condition did not become true within 20 s")
		case <-time.After(10 * time.Millisecond):
			runtime.GC()
		}
	}
}

const droppedHandle = "a handle was dropped without Unlock"

func newLogged(t *testing.T, o *lock.Options) (*lock.Client, *syncBuffer) {
	t.Helper()
	log := new(syncBuffer)
	if o == nil {
		o = new(lock.Options)
	}
	o.Logger = log.logger()
	c, err := lock.New(memstore.New(), o)
	require.NoError(t, err)
	return c, log
}

// Handles of every kind that are dropped without Unlock are reported once, with key and
// token. Handles that somebody can still unlock, and contexts of a handle, are not. Hooks keep no
// handle.
func TestADroppedHandleIsReported(t *testing.T) {
	t.Parallel()
	c, log := newLogged(t, &lock.Options{Hooks: new(hookLog).hooks()})
	ctx := t.Context()
	lockAll := func(lockers ...lock.Locker) (held []*lock.Held) {
		for _, l := range lockers {
			h, err := l.Lock(ctx)
			require.NoError(t, err)
			held = append(held, h)
		}
		return held
	}
	kept := lockAll(c.Mutex("kept"), c.Mutex("kept by context"))
	live, stop := kept[1].Context(ctx)
	defer stop()
	kept[1] = nil
	again, err := c.Reentrant("kept by context").Lock(live)
	require.NoError(t, err)

	func() {
		dropped := lockAll(c.Mutex("mutex"), c.Semaphore("permit", 2), c.Batch("batch", "a", "b"),
			c.RWMutex("writer"), lock.Multi(c.Mutex("first"), c.Mutex("second")), c.Reentrant("outer"))
		for _, h := range dropped { // contexts that have ended do not keep a handle
			_, end := h.Context(ctx)
			_ = h.Done()
			end()
		}
		inner, end := dropped[5].Context(ctx)
		_, err := c.Reentrant("outer").Lock(inner)
		require.NoError(t, err)
		require.NoError(t, dropped[5].Unlock(ctx))
		end()
	}()
	collectUntil(t, func() bool { return strings.Count(log.String(), droppedHandle) >= 7 })
	runtime.GC()
	assert.Contains(t, log.String(), `level=WARN msg="lock: `+droppedHandle)
	for _, key := range []string{"mutex", "permit", "batch", "writer", "first", "second", "outer"} {
		assert.Equal(t, 1, strings.Count(log.String(), "key="+key+" token="), key)
	}
	assert.NotContains(t, log.String(), "kept")
	assert.Equal(t, 9, c.Stats().Renewal.Held, "the locks stay held")

	require.NoError(t, kept[0].Unlock(ctx))
	require.NoError(t, again.Unlock(ctx))
	require.NoError(t, live.Err())
	require.NoError(t, c.Close(context.Background()))
}

// Handles that were unlocked, lost, or ended by Close are not reported.
func TestHandlesThatHaveEndedAreNotReported(t *testing.T) {
	t.Parallel()
	store := memstore.New()
	log := new(syncBuffer)
	c, err := lock.New(store, &lock.Options{Logger: log.logger(), Terms: lock.Terms{TTL: 300 * time.Millisecond}})
	require.NoError(t, err)
	func() {
		short, err := c.Mutex("unlocked").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, short.Unlock(t.Context()))
		lost, err := c.Mutex("lost").Lock(t.Context())
		require.NoError(t, err)
		store.Delete("lost")
		<-lost.Done()
		runtime.KeepAlive(lost)
		closed, err := c.Mutex("closed").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, c.Close(context.Background()))
		runtime.KeepAlive(closed)
	}()
	other, otherLog := newLogged(t, nil)
	func() {
		_, err = other.Mutex("mark").Lock(t.Context())
		require.NoError(t, err)
	}()
	collectUntil(t, func() bool { return strings.Contains(otherLog.String(), droppedHandle) })
	runtime.GC()
	assert.NotContains(t, log.String(), droppedHandle)
	assert.NotContains(t, log.String(), "Client was dropped", "the client was closed")
	require.NoError(t, other.Close(context.Background()))
}

// A handle is reported although its client was dropped with it.
func TestAHandleThatIsDroppedWithItsClientIsReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(syncBuffer)
		stop := func() func() {
			c, err := lock.New(memstore.New(), &lock.Options{Logger: log.logger()})
			require.NoError(t, err)
			h, err := c.Mutex("a").Lock(ctx)
			require.NoError(t, err)
			settle(10 * time.Second) // the handle is watched from now on
			assert.True(t, h.Valid())
			return lock.StopWheelOf(c)
		}()
		defer stop()
		collectUntil(t, func() bool { return strings.Contains(log.String(), droppedHandle) })
	})
}

// A client that is dropped is reported, and not its wheel. Its locks are still renewed.
func TestADroppedClientIsReported(t *testing.T) {
	t.Parallel()
	log := new(syncBuffer)
	var closers []func()
	for _, holds := range []bool{true, false} {
		func() {
			store := memstore.New()
			c, err := lock.New(store, &lock.Options{Logger: log.logger()})
			require.NoError(t, err)
			h, err := c.Mutex("a").Lock(t.Context())
			require.NoError(t, err)
			if !holds {
				require.NoError(t, h.Unlock(t.Context()))
			}
			closers = append(closers, lock.StopWheelOf(c))
		}()
	}
	collectUntil(t, func() bool { return strings.Count(log.String(), "Client was dropped without Close") == 2 })
	assert.Contains(t, log.String(), "held=1")
	assert.Contains(t, log.String(), "held=0")

	wheelLog := new(syncBuffer) // of a wheel that is dropped later
	func() {
		w, err := wheel.New(&wheel.Options{Logger: wheelLog.logger()})
		require.NoError(t, err)
		_, err = schedule.AfterFunc(w, time.Hour, func() {})
		require.NoError(t, err)
		inner := *w
		closers = append(closers, func() { inner.Close() })
	}()
	collectUntil(t, func() bool { return strings.Contains(wheelLog.String(), "Wheel was dropped") })
	for _, stop := range closers {
		stop()
	}
	assert.NotContains(t, log.String(), "wheel:")
	assert.Equal(t, 2, strings.Count(log.String(), "Client was dropped"))
}

// New warns once a minute while more than 100 clients are open.
func TestManyOpenClientsAreReported(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(syncBuffer)
		var clients []*lock.Client
		open := func(n int) {
			for range n {
				c, err := lock.New(memstore.New(), &lock.Options{Logger: log.logger()})
				require.NoError(t, err)
				clients = append(clients, c)
			}
		}
		open(int(100 - lock.OpenClients()))
		assert.Empty(t, log.String())
		open(10)
		synctest.Wait() // a goroutine writes the record
		assert.Equal(t, 1, strings.Count(log.String(), "lock: many Clients are open"))
		assert.Contains(t, log.String(), "clients=101")
		settle(time.Minute)
		open(10)
		synctest.Wait()
		assert.Equal(t, 2, strings.Count(log.String(), "many Clients"))
		for _, c := range clients {
			require.NoError(t, c.Close(context.Background()))
		}
		settle(time.Minute)
		clients = nil
		open(1)
		require.NoError(t, clients[0].Close(context.Background()))
		synctest.Wait()
		assert.Equal(t, 2, strings.Count(log.String(), "many Clients"))
	})
}

// leader is code of the user that leads to a handle.
type leader struct {
	driver.Store
	slog.Handler
	held *lock.Held
}

// A hook, a store or a logger may lead to the handles of its client. They are garbage all the same
// when the client is closed.
func TestAHandleThatTheClientLeadsToIsCollected(t *testing.T) {
	for name, lead := range map[string]func(l *leader, o *lock.Options) driver.Store{
		"hook": func(l *leader, o *lock.Options) driver.Store {
			o.Hooks = &lock.Hooks{Released: func(context.Context, lock.HookInfo) { runtime.KeepAlive(l) }}
			return l.Store
		},
		"renewals": func(l *leader, o *lock.Options) driver.Store {
			o.Hooks = &lock.Hooks{BatchDone: func(renewal.BatchInfo) { runtime.KeepAlive(l) }}
			return l.Store
		},
		"logger": func(l *leader, o *lock.Options) driver.Store {
			o.Logger = slog.New(l)
			return l.Store
		},
		"store": func(l *leader, _ *lock.Options) driver.Store { return l },
	} {
		t.Run(name, func(t *testing.T) {
			var gone weak.Pointer[leader]
			synctest.Test(t, func(t *testing.T) {
				l := &leader{Store: memstore.New(), Handler: slog.DiscardHandler}
				gone = weak.Make(l)
				var o lock.Options
				client, err := lock.New(lead(l, &o), &o)
				require.NoError(t, err)
				l.held, err = client.Mutex("k").Lock(ctx)
				require.NoError(t, err)
				settle(10 * time.Second) // the handle is watched from now on
				require.NoError(t, l.held.Unlock(ctx))
				require.NoError(t, client.Close(ctx))
			})
			collectUntil(t, func() bool { return gone.Value() == nil })
		})
	}
}
