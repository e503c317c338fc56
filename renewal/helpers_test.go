package renewal_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/wheel"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Most tests use the default lease: a TTL of 30 s, renewed every 10 s, and valid for 29.4 s.
const (
	ttl      = 30 * time.Second
	period   = ttl / 3
	margin   = ttl / 100
	validity = ttl - ttl/100 - margin
)

var errIO = errors.New("connection reset")

type engine interface {
	schedule.Scheduler
	Close() []schedule.Task
}

// onEngines runs a test in a bubble for each engine. The argument slack is the largest
// lateness of the engine.
func onEngines(t *testing.T, test func(t *testing.T, e engine, slack time.Duration)) {
	const tick = 20 * time.Millisecond
	t.Run("wheel", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			w, err := wheel.New(&wheel.Options{Tick: tick})
			require.NoError(t, err)
			defer w.Close()
			test(t, w, tick)
		})
	})
	t.Run("heap", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s, err := heapqueue.NewScheduler(nil)
			require.NoError(t, err)
			defer s.Close()
			test(t, s, 0)
		})
	})
}

// call is one call of Renew.
type call struct {
	at    time.Time
	batch []string
}

// store is a Renewer that calls answer for each lease, or renews it if answer is nil.
type store struct {
	answer func(ctx context.Context, lease string) (renewal.Outcome, error)

	mu    sync.Mutex // guards all below
	calls []call
	now   int // calls under way
	most  int // at one time
}

func (s *store) Renew(ctx context.Context, batch []string, out []renewal.Outcome) error {
	s.mu.Lock()
	s.calls = append(s.calls, call{time.Now(), slices.Clone(batch)})
	s.now++
	s.most = max(s.most, s.now)
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		s.now--
		s.mu.Unlock()
	}()
	var errs error
	for i, lease := range batch {
		if s.answer == nil {
			out[i] = renewal.Renewed
			continue
		}
		outcome, err := s.answer(ctx, lease)
		out[i] = outcome
		if err != nil {
			errs = err
		}
	}
	return errs
}

// seen returns all calls so far.
func (s *store) seen() []call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.calls)
}

// count returns how many batches contained the lease.
func (s *store) count(lease string) int {
	n := 0
	for _, c := range s.seen() {
		for _, l := range c.batch {
			if l == lease {
				n++
			}
		}
	}
	return n
}

func hang(ctx context.Context, _ string) (renewal.Outcome, error) {
	<-ctx.Done()
	return renewal.Unknown, ctx.Err()
}

func failing(context.Context, string) (renewal.Outcome, error) { return renewal.Unknown, errIO }

func newWatchdog(t *testing.T, e schedule.Scheduler, s renewal.Renewer[string], o *renewal.Options) *renewal.Watchdog[string] {
	t.Helper()
	watchdog, err := renewal.New(e, s, o)
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := watchdog.Close(context.Background())
		require.NoError(t, err)
	})
	return watchdog
}

func register(t *testing.T, watchdog *renewal.Watchdog[string], lease string) *renewal.Entry[string] {
	t.Helper()
	return registerFor(t, watchdog, lease, ttl)
}

func registerFor(t *testing.T, watchdog *renewal.Watchdog[string], lease string, ttl time.Duration) *renewal.Entry[string] {
	t.Helper()
	e, err := watchdog.Register(lease, renewal.Grant{TTL: ttl, Sent: time.Now()})
	require.NoError(t, err)
	return e
}

// advance moves the clock of the bubble on and waits until its goroutines are idle.
func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func reasonOf(t *testing.T, err error) renewal.Reason {
	t.Helper()
	var lost *renewal.LostError
	require.ErrorAs(t, err, &lost)
	require.ErrorIs(t, err, renewal.ErrLost)
	return lost.Reason
}

func heap(t *testing.T) engine {
	t.Helper()
	s, err := heapqueue.NewScheduler(nil)
	require.NoError(t, err)
	return s
}

// manual is an engine that fires its timers when the test calls run, on the goroutine of the
// test.
type manual struct {
	mu    sync.Mutex // guards tasks
	tasks map[uint64]schedule.Task
}

func (m *manual) Schedule(_ time.Duration, task schedule.Task) (schedule.Timer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.tasks == nil {
		m.tasks = make(map[uint64]schedule.Task)
	}
	id := uint64(len(m.tasks) + 1)
	m.tasks[id] = task
	return schedule.NewTimer(m, id), nil
}

func (m *manual) ResetTimer(id uint64, _ time.Duration) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tasks[id] != nil
}

func (m *manual) StopTimer(id uint64) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	was := m.tasks[id] != nil
	m.tasks[id] = nil
	return was
}

func (m *manual) AwaitTimer(uint64) {}

func (m *manual) TimerDeadline(uint64) (time.Time, bool) { return time.Time{}, false }

// run fires every timer.
func (m *manual) run() {
	m.mu.Lock()
	tasks := make(map[uint64]schedule.Task, len(m.tasks))
	for id, task := range m.tasks {
		tasks[id] = task
	}
	m.mu.Unlock()
	for id, task := range tasks {
		if task != nil {
			task.Run(schedule.NewTimer(m, id))
		}
	}
}
