// Cases of contexts that end with an error of a store as their cause.

package locktest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// causes returns the errors with a meaning of their own as results of a store. They may
// also be causes of contexts: errgroup.WithContext cancels all calls with the error of
// one TryLock.
func causes() map[string]error {
	return map[string]error{
		"HeldError":      &driver.HeldError{Key: "another key", ExpiresIn: time.Hour},
		"ErrNotAcquired": driver.ErrNotAcquired,
		"ErrWrongType":   driver.ErrWrongType,
		"ErrBadKey":      driver.ErrBadKey,
		"ErrClosed":      driver.ErrClosed,
		"ErrNotHeld":     driver.ErrNotHeld,
		"ErrLost":        driver.ErrLost,
	}
}

// endingContexts has cases in which the caller's context ends during a call of the store.
var endingContexts = []testCase{
	{name: "L4_the_cause_of_a_context_is_no_answer", run: func(f *fixture) {
		f.cancelEach("k", func(c *lock.Client, key string) func(context.Context) error {
			return func(ctx context.Context) error {
				_, err := c.Mutex(key).TryLock(ctx)
				return err
			}
		})
		f.cancelEach("waiting", func(c *lock.Client, key string) func(context.Context) error {
			return func(ctx context.Context) error {
				_, err := c.Mutex(key).Lock(ctx)
				return err
			}
		})
		f.cancelEach("multi", func(c *lock.Client, key string) func(context.Context) error {
			return func(ctx context.Context) error {
				_, err := lock.Multi(c.Mutex(key)).TryLock(ctx)
				return err
			}
		})
	}},
	{name: "L4_the_cause_of_a_context_does_not_answer_a_downgrade", needs: needsModes(driver.Read, driver.Write), run: func(f *fixture) {
		f.cancelEach("k", func(c *lock.Client, key string) func(context.Context) error {
			m := c.RWMutex(key)
			w, err := m.Lock(f.ctx)
			require.NoError(f, err)
			return func(ctx context.Context) error {
				_, err := m.Downgrade(ctx, w)
				return err
			}
		})
	}},
	{name: "L4_the_cause_of_a_context_that_ends_in_a_queue", run: func(f *fixture) {
		for name, cause := range causes() {
			key := f.prefix + name
			holder := f.acquire(f.request(name))
			c := f.newClient()
			ctx, cancel := context.WithCancelCause(f.ctx)
			done := make(chan error, 1)
			go func() {
				_, err := c.Mutex(key).Lock(ctx)
				done <- err
			}()
			f.until(func() bool { return c.Stats().Waiting > 0 }, "Lock is waiting")
			cancel(cause)
			err := <-done
			if !errors.Is(err, driver.ErrUnavailable) { // the store had answered
				f.names(err, key, cause, driver.ErrNotAcquired)
			}
			require.NoError(f, f.store.Release(f.ctx, holder))
			f.until(func() bool { return c.Stats().Releasing == 0 }, "the place in the queue is released")
			f.acquireReleased(f.request(name))
		}
	}},
	{name: "L4_Close_ends_calls_and_releases_locks", run: func(f *fixture) {
		f.acquire(f.request("taken"))
		fastest := time.Duration(math.MaxInt64)
		for try := 0; try < 3 && fastest >= maxCloseDelay; try++ { // the machine may be busy
			fastest = min(fastest, f.closeDuringCalls(fmt.Sprint("leader", try)))
		}
		assert.Less(f, fastest, maxCloseDelay)
	}},
}

// maxCloseDelay bounds the time from Close to the end of the calls of the client.
const maxCloseDelay = 50 * time.Millisecond

// closeDuringCalls closes a client during calls that its store holds up until their contexts end. It returns how long they took then.
func (f *fixture) closeDuringCalls(leader string) time.Duration {
	f.Helper()
	var holdUp atomic.Bool
	held := make(chan struct{}, 10)
	wrapped := driver.Wrap(f.store, func(ctx context.Context, c *driver.Call, next func(context.Context) error) error {
		if holdUp.Load() && c.Name != "release" {
			if c.Key != f.prefix+"taken" { // it is one of the calls below
				held <- struct{}{}
			}
			<-ctx.Done()
		}
		return next(ctx)
	})
	c, err := lock.New(keptOpen{wrapped}, &lock.Options{Terms: lock.Terms{TTL: f.TTL}})
	require.NoError(f, err)
	election := c.Election(f.prefix+leader, "me")
	leadership, err := election.TryLock(f.ctx)
	require.NoError(f, err)
	exported, _ := leadership.Export()
	done := make(chan error, 10)
	go func() {
		_, err := c.Mutex(f.prefix + "taken").Lock(f.ctx)
		done <- err
	}()
	f.until(func() bool { return c.Stats().Waiting > 0 }, "Lock is waiting")
	calls := 0
	for _, call := range []func() error{
		func() error {
			h, err := c.Mutex(f.prefix + "free").TryLock(f.ctx)
			if err == nil {
				err = h.Unlock(f.ctx)
			}
			return err
		},
		func() error { _, err := c.Inspect(f.ctx, f.prefix+leader); return err },
		func() error { _, err := c.Resume(f.ctx, exported); return err },
		func() error { return election.Proclaim(f.ctx, leadership, "you") },
	} {
		holdUp.Store(false)
		if call() != nil { // the store cannot do it
			continue
		}
		holdUp.Store(true)
		calls++
		go func() { done <- call() }()
		<-held
	}
	began := time.Now()
	closed := make(chan error, 1)
	go func() { closed <- c.Close(f.ctx) }()
	for range 1 + calls {
		require.ErrorIs(f, <-done, lock.ErrClosed)
	}
	took := time.Since(began)
	require.NoError(f, <-closed)
	f.acquireReleased(f.request(leader))
	return took
}

// acquireReleased acquires a lock that its holder has released while a try was cancelled. If the store is a
// quorum, whose leases have no tokens, late members may grant that try copies of the lock. They are
// released in the background, long before their leases would end.
func (f *fixture) acquireReleased(r driver.Request) {
	f.Helper()
	for began := time.Now(); f.Tokenless && time.Since(began) < f.TTL/4; time.Sleep(time.Millisecond) {
		if _, err := f.store.Acquire(f.ctx, r); !errors.Is(err, driver.ErrNotAcquired) {
			require.NoError(f, err)
			return
		}
	}
	f.acquire(r)
}

// cancelEach cancels the calls that prepare returns, with each cause, before and after
// the store has executed the request. The call must leave nothing behind, and a late
// request must acquire nothing.
func (f *fixture) cancelEach(what string, prepare func(c *lock.Client, key string) func(context.Context) error) {
	f.Helper()
	for name, cause := range causes() {
		for _, executed := range []bool{false, true} {
			key := fmt.Sprint(what, " ", name, " ", executed)
			s := &unanswered{Store: f.store, fixture: f, executes: executed, asked: make(chan struct{}, 1)}
			c, err := lock.New(s, &lock.Options{Terms: lock.Terms{TTL: f.TTL}})
			require.NoError(f, err)
			f.Cleanup(func() { assert.NoError(f, c.Close(context.Background())) })
			call := prepare(c, f.prefix+key)

			s.hang(cause)
			ctx, cancel := context.WithCancelCause(f.ctx)
			done := make(chan error, 1)
			go func() { done <- call(ctx) }()
			<-s.asked
			cancel(cause)
			f.names(<-done, f.prefix+key, cause, driver.ErrUnavailable)
			f.until(func() bool { return c.Stats().Releasing == 0 }, "the lease is released")
			for _, r := range s.requests() {
				_, err := f.store.Acquire(f.ctx, r)
				require.ErrorIs(f, err, driver.ErrNotAcquired, "a late request must acquire nothing: %s", key)
			}
			f.acquire(f.request(key))
		}
	}
}

// names expects the error of a call whose context has ended, of the given kind:
// ErrNotAcquired or ErrUnavailable. It matches no other kind, whatever the cause is.
func (f *fixture) names(err error, key string, cause, kind error) {
	f.Helper()
	other := driver.ErrNotAcquired
	if errors.Is(kind, other) {
		other = driver.ErrUnavailable
	}
	require.ErrorIs(f, err, kind)
	require.NotErrorIs(f, err, other)
	if !errors.Is(cause, driver.ErrNotAcquired) {
		require.ErrorIs(f, err, cause)
	}
	assert.Equal(f, 1, strings.Count(err.Error(), fmt.Sprintf("%q", key)), "the error names the key once: %v", err)
}

// until waits for an event that must happen.
func (f *fixture) until(happened func() bool, what string) {
	f.Helper()
	for deadline := time.Now().Add(f.patience()); !happened(); time.Sleep(time.Millisecond) {
		require.True(f, time.Now().Before(deadline), what)
	}
}

// unanswered is the store of a case until hang is called. From then on, Acquire and Wait get no answer, and
// return the cause of their context once it has ended.
type unanswered struct {
	driver.Store
	*fixture
	executes bool          // execute requests that get no answer
	asked    chan struct{} // receives a value for each unanswered request

	mu    sync.Mutex // guards all below
	cause error      // future cause of the caller's context; nil while calls are forwarded
	seen  []driver.Request
}

func (u *unanswered) hang(cause error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.cause = cause
}

// requests returns the unanswered requests.
func (u *unanswered) requests() []driver.Request {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.seen
}

// Shutdown leaves the store open.
func (u *unanswered) Shutdown(context.Context) error { return nil }

func (u *unanswered) Acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	return u.answer(ctx, r, u.Store.Acquire)
}

func (u *unanswered) Wait(ctx context.Context, r driver.Request, queued func()) (driver.Lease, error) {
	return u.answer(ctx, r, func(ctx context.Context, r driver.Request) (driver.Lease, error) {
		return u.Store.Wait(ctx, r, queued)
	})
}

func (u *unanswered) answer(ctx context.Context, r driver.Request, ask func(context.Context, driver.Request) (driver.Lease, error)) (driver.Lease, error) {
	u.mu.Lock()
	cause := u.cause
	if cause != nil {
		u.seen = append(u.seen, r)
	}
	u.mu.Unlock()
	if cause == nil {
		return ask(ctx, r)
	}
	if u.executes {
		_, err := ask(ctx, r)
		assert.NoError(u, err)
	}
	select {
	case u.asked <- struct{}{}:
	default:
	}
	<-ctx.Done()
	assert.NotErrorIs(u, context.Cause(ctx), cause, "the store must not see the caller's cause")
	return driver.Lease{Unanswered: true}, context.Cause(ctx)
}
