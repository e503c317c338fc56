// Mutex.

package redsync

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/contrib/compat/redsync/redis"
	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock"
)

// A Mutex is a lock that expires unless it is extended. Nothing extends it in the background. Its
// methods are safe for concurrent use. It must not be copied.
type Mutex struct {
	name          string
	expiry        time.Duration
	tries         int
	delay         DelayFunc              // nil means randomDelay
	genValue      func() (string, error) // nil means randomValue
	driftFactor   float64
	timeoutFactor float64
	shuffle       bool
	failFast      bool
	setNXOnExtend bool
	pools         []redis.Pool
	order         []int   // in which the pools are asked
	queues        []queue // of the calls for each pool

	mu    sync.Mutex // guards all below, and is held while calls join the queues
	value string
	until time.Time
}

// Name returns the key in Redis.
func (m *Mutex) Name() string { return m.name }

// Value returns the value that the key got by the last successful Lock, or that of WithValue. It
// is "" before. Unlock does not change it.
func (m *Mutex) Value() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.value
}

// Until returns the instant until which the lock is valid, by the clock of this process: its
// expiry, less the share of WithDriftFactor, after the start of the last successful Lock or Extend.
// It is the zero time before. Unlock does not change it.
func (m *Mutex) Until() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.until
}

// TryLock is TryLockContext with a context that does not end.
func (m *Mutex) TryLock() error { return m.TryLockContext(context.Background()) }

// TryLockContext is LockContext with one try.
func (m *Mutex) TryLockContext(ctx context.Context) error { return m.lock(ctx, 1) }

// Lock is LockContext with a context that does not end.
func (m *Mutex) Lock() error { return m.LockContext(context.Background()) }

// LockContext acquires the lock, with several tries if it is taken or the servers fail. The error
// of the last try is an *ErrTaken, or joins those of the servers: *ErrNodeTaken and *RedisError.
// It is ErrFailed if there is no such reason, and if ctx ends after a try that was not the last.
//
// LockContext returns soon after ctx has ended. What it has acquired is released in the
// background. An error leaves an earlier lock of this mutex as it is.
func (m *Mutex) LockContext(ctx context.Context) error { return m.lock(ctx, m.tries) }

func (m *Mutex) lock(ctx context.Context, tries int) error {
	ctx = orBackground(ctx)
	if err := m.check(); err != nil {
		return err
	}
	delay := m.delay
	if delay == nil {
		delay = randomDelay
	}
	genValue := m.genValue
	if genValue == nil {
		genValue = randomValue
	}
	value, err := genValue()
	if err != nil {
		return err
	}
	for i := range tries {
		if i > 0 {
			_ = basic.Sleep(ctx, delay(i))
			if ctx.Err() != nil {
				return ErrFailed
			}
		}
		locked, err := m.try(ctx, value)
		switch {
		case locked:
			return nil
		case i == tries-1 && err != nil:
			return err
		}
	}
	return ErrFailed
}

// try is one try of Lock. If it fails, it releases what it has acquired.
func (m *Mutex) try(ctx context.Context, value string) (bool, error) {
	start := time.Now()
	t := &attempt{
		m: m, value: value,
		answers:  make(chan answer, len(m.pools)),
		decided:  make(chan struct{}),
		released: make(chan struct{}),
	}
	limited, cancel := context.WithTimeout(ctx, m.timeout())
	m.forEachNode(func() { cancel(); close(t.released) }, func(node int, turn <-chan struct{}) {
		t.run(limited, node, turn)
	})
	n, err := m.collect(limited, t.answers)
	until := m.validUntil(start)
	if n >= m.quorum() && time.Now().Before(until) {
		m.locked(value, until)
		t.won = true
		close(t.decided)
		return true, nil
	}
	close(t.decided)
	m.awaitRelease(ctx, t.released)
	return false, err
}

// attempt is one try of Lock.
type attempt struct {
	m        *Mutex
	value    string
	answers  chan answer
	won      bool          // written before decided is closed
	decided  chan struct{} // closed when won is set
	released chan struct{} // closed when nothing is left to do for any node
}

// run acquires the lock from one node, and releases it if the attempt fails.
func (t *attempt) run(ctx context.Context, node int, turn <-chan struct{}) {
	a, sent := t.m.call(ctx, t.answers, node, turn, func(conn redis.Conn) (bool, error) {
		return conn.SetNX(t.m.name, t.value, t.m.expiry)
	})
	<-t.decided
	// A client may have sent the request twice, so a key that is taken may have the value of
	// this attempt. A value that a function of the user has made may be that of another mutex.
	unsafe := a.refused() && t.m.genValue != nil
	if t.won || !sent || unsafe {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.m.requestTimeout())
	defer cancel()
	_, _ = t.m.call(ctx, make(chan answer, 1), node, turn, t.m.release(t.value))
}

// awaitRelease waits until the nodes of a failed try have answered the release, at most for the
// time of a try.
func (m *Mutex) awaitRelease(ctx context.Context, released <-chan struct{}) {
	timer := time.NewTimer(m.timeout())
	defer timer.Stop()
	select {
	case <-released:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// Unlock is UnlockContext with a context that does not end.
func (m *Mutex) Unlock() (bool, error) { return m.UnlockContext(context.Background()) }

// UnlockContext releases the lock. It returns true if a majority of the servers had it, and false
// with an error otherwise: *ErrTaken if another holder has it, or the errors of the servers,
// among them ErrLockAlreadyExpired.
//
// The servers get the request even if ctx has ended, but UnlockContext does not wait for their
// answers then.
func (m *Mutex) UnlockContext(ctx context.Context) (bool, error) {
	ctx = orBackground(ctx)
	if err := m.checkPools(); err != nil {
		return false, err
	}
	n, err := m.callAll(ctx, context.WithoutCancel(ctx), m.release(m.Value()))
	if n < m.quorum() {
		return false, err
	}
	return true, nil
}

// Extend is ExtendContext with a context that does not end.
func (m *Mutex) Extend() (bool, error) { return m.ExtendContext(context.Background()) }

// ExtendContext gives the lock its full expiry again, counted from now. It returns false and an
// error if a majority of the servers does not confirm that in time: *ErrTaken if they have
// another value or none.
func (m *Mutex) ExtendContext(ctx context.Context) (bool, error) {
	ctx = orBackground(ctx)
	if err := m.check(); err != nil {
		return false, err
	}
	value, script := m.Value(), extendScript
	if m.setNXOnExtend {
		script = restoreScript
		if value == "" { // the value of all mutexes that were never locked
			return false, ErrExtendFailed
		}
	}
	start := time.Now()
	n, err := m.callAll(ctx, ctx, func(conn redis.Conn) (bool, error) {
		reply, err := conn.Eval(script, m.name, value, int(m.expiry/time.Millisecond))
		return reply == done, err
	})
	if n < m.quorum() {
		return false, err
	}
	until := m.validUntil(start)
	if !time.Now().Before(until) {
		return false, ErrExtendFailed
	}
	m.extended(value, until)
	return true, nil
}

// Valid is ValidContext with a context that does not end.
//
// Deprecated: use Until, which does no IO.
func (m *Mutex) Valid() (bool, error) { return m.ValidContext(context.Background()) }

// ValidContext reports whether a majority of the servers has the key with the value of this
// mutex. The lock may have expired when it returns. An error may accompany true, if a minority
// of the servers failed.
//
// Deprecated: use Until, which does no IO.
func (m *Mutex) ValidContext(ctx context.Context) (bool, error) {
	ctx = orBackground(ctx)
	if err := m.checkPools(); err != nil {
		return false, err
	}
	value := m.Value()
	n, err := m.callAll(ctx, ctx, func(conn redis.Conn) (bool, error) {
		found, err := conn.Get(m.name)
		return found == value && value != "" && err == nil, err
	})
	return n >= m.quorum(), err
}

// release returns the request that deletes the key if its value is value.
func (m *Mutex) release(value string) request {
	return func(conn redis.Conn) (bool, error) {
		reply, err := conn.Eval(releaseScript, m.name, value)
		if err == nil && reply == missing {
			err = ErrLockAlreadyExpired
		}
		return err == nil && reply == done, err
	}
}

// locked sets the value and the end of a lock that was acquired.
func (m *Mutex) locked(value string, until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.value, m.until = value, until
}

// extended sets the end of a lock that was extended, unless a later Lock or Extend has set it.
func (m *Mutex) extended(value string, until time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.value == value && m.until.Before(until) {
		m.until = until
	}
}

// checkPools returns what prevents any call of the mutex.
func (m *Mutex) checkPools() error {
	if len(m.pools) == 0 {
		return fmt.Errorf("redsync: no pools for mutex %s", basic.Quote(m.name))
	}
	for i, p := range m.pools {
		if basic.IsNil(p) {
			return fmt.Errorf("redsync: pool %d of mutex %s is nil", i, basic.Quote(m.name))
		}
	}
	return nil
}

// check returns what prevents Lock and Extend.
func (m *Mutex) check() error {
	if m.expiry < time.Millisecond {
		return fmt.Errorf("redsync: mutex %s: %w: the expiry %v is below 1ms", basic.Quote(m.name), lock.ErrBadTTL, m.expiry)
	}
	return m.checkPools()
}

func (m *Mutex) quorum() int { return len(m.pools)/2 + 1 }

// timeout returns how long a try waits for the servers.
func (m *Mutex) timeout() time.Duration { return share(m.expiry, m.timeoutFactor) }

// requestTimeout bounds all other requests. A request that arrives after the expiry changes nothing.
func (m *Mutex) requestTimeout() time.Duration { return max(m.expiry, minRequestTimeout) }

// minRequestTimeout is for a mutex that gets a lock from WithValue and only unlocks it. The expiry of
// that mutex may be too short for a request, because it is not that of the lock.
const minRequestTimeout = time.Second

// validUntil returns the end of the validity of a lock whose requests were sent after start.
func (m *Mutex) validUntil(start time.Time) time.Time {
	return start.Add(m.expiry - share(m.expiry, m.driftFactor))
}

func share(d time.Duration, factor float64) time.Duration {
	return time.Duration(float64(d) * factor)
}

// orBackground returns ctx, or a context that does not end for nil.
func orBackground(ctx context.Context) context.Context {
	if ctx == nil {
		return context.Background()
	}
	return ctx
}
