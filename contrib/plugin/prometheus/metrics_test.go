package leaseprom_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	leaseprom "github.com/leasewheel/leasewheel/contrib/plugin/prometheus"
	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/wheel"
)

var ctx = context.Background()

var errIO = errors.New("connection reset")

const nothing locktest.Op = ""

func TestAcquireAndHold(t *testing.T) {
	bubble(t, nil, lock.Options{}, func(t *testing.T, b *bench) {
		const acquire, hold = "leasewheel_lock_acquire_duration_seconds", "leasewheel_lock_hold_duration_seconds"
		h := b.lock(b.Mutex("k"))
		assert.InDelta(t, 1, b.value("leasewheel_leases_held"), 0)
		_, err := b.Mutex("k").TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		limited, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		done := make(chan error, 1)
		go func() {
			_, err := b.Mutex("k").Lock(limited)
			done <- err
		}()
		assert.InDelta(t, 1, b.value("leasewheel_lock_waiters"), 0)
		require.ErrorIs(t, <-done, lock.ErrNotAcquired)
		assert.InDelta(t, 0, b.value("leasewheel_lock_waiters"), 0)
		time.Sleep(2 * time.Second)
		require.NoError(t, h.Unlock(ctx))

		assert.InDelta(t, 1, b.value(acquire, "kind=mutex", "outcome=acquired", "error_type="), 0)
		assert.InDelta(t, 1, b.value(acquire, "kind=mutex", "outcome=held_by_other", "error_type="), 0)
		canceled := b.metric(acquire, "outcome=canceled", "error_type=")
		require.NotNil(t, canceled)
		assert.InDelta(t, 3, canceled.Histogram.GetSampleSum(), 1e-9)
		unlocked := b.metric(hold, "kind=mutex", "end=unlocked", "store=default")
		require.NotNil(t, unlocked)
		assert.InDelta(t, 5, unlocked.Histogram.GetSampleSum(), 1e-9)
		assert.InDelta(t, 0, b.value("leasewheel_leases_held"), 0)

		b.lock(b.Semaphore("s", 1))
		require.NoError(t, b.Close(ctx))
		assert.InDelta(t, 1, b.value(hold, "kind=semaphore", "end=closed"), 0)
		_, err = b.Mutex("k").TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrClosed)
		assert.InDelta(t, 1, b.value(acquire, "outcome=error", "error_type=closed"), 0)
	})
}

func TestErrorTypes(t *testing.T) {
	bubble(t, nil, lock.Options{MaxWaiters: 1}, func(t *testing.T, b *bench) {
		for typ, err := range map[string]error{"unavailable": errIO, "timeout": context.DeadlineExceeded} {
			b.fail(locktest.Acquire, err)
			_, err := b.Mutex("k").TryLock(ctx)
			require.ErrorIs(t, err, lock.ErrUnavailable)
			assert.InDelta(t, 1, b.value("leasewheel_lock_acquire_duration_seconds", "outcome=unavailable", "error_type="+typ), 0, typ)
		}
		b.fail(nothing, nil)
		h := b.lock(b.Mutex("k"))
		_, err := b.Semaphore("k", 1).TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrWrongType)
		assert.InDelta(t, 1, b.value("leasewheel_lock_acquire_duration_seconds", "kind=semaphore", "outcome=error", "error_type=wrong_type"), 0)
		waits := make(chan error, 1)
		go func() {
			h, err := b.Mutex("k").Lock(ctx)
			_ = h.Unlock(ctx)
			waits <- err
		}()
		synctest.Wait()
		_, err = b.Mutex("k").Lock(ctx)
		require.ErrorIs(t, err, lock.ErrTooMany)
		assert.InDelta(t, 1, b.value("leasewheel_lock_acquire_duration_seconds", "outcome=error", "error_type=too_many"), 0)
		require.NoError(t, h.Unlock(ctx))
		require.NoError(t, <-waits)
	})
}

// Each reason has a counter, which exists before the first loss.
func TestLosses(t *testing.T) {
	bubble(t, &leaseprom.Options{Store: "redis"}, lock.Options{}, func(t *testing.T, b *bench) {
		loss := func(reason string) float64 {
			return b.value("leasewheel_lease_losses_total", "reason="+reason, "kind=mutex", "store=redis")
		}
		assert.InDelta(t, -1, loss("failed"), 0)
		h := b.lock(b.Mutex("k"))
		for _, reason := range []string{"not_owned", "failed", "expired", "limit_reached"} {
			assert.InDelta(t, 0, loss(reason), 0, reason)
		}
		b.mem.Delete("k")
		<-h.Done()
		assert.InDelta(t, 1, loss("not_owned"), 0)
		assert.InDelta(t, 1, b.value("leasewheel_renewal_leases_total", "outcome=not_owned"), 0)

		limited := b.lock(b.With(lock.Terms{MaxHold: time.Minute}).Mutex("l"))
		<-limited.Done()
		assert.InDelta(t, 1, loss("limit_reached"), 0)
		assert.InDelta(t, 1, b.value("leasewheel_lock_hold_duration_seconds", "end=limit_reached"), 0)

		h = b.lock(b.Mutex("k"))
		b.fail(locktest.Renew, errIO)
		<-h.Done()
		assert.InDelta(t, 1, loss("failed"), 0)
		assert.InDelta(t, 0, loss("expired"), 0)
		assert.InDelta(t, 2, b.value("leasewheel_lock_hold_duration_seconds", "end=lost"), 0)
		assert.InDelta(t, 2, b.value("leasewheel_renewal_leases_total", "outcome=unknown"), 0)
		assert.Positive(t, b.value("leasewheel_renewal_batch_duration_seconds", "error_type=unavailable"))

		margin := b.metric("leasewheel_lease_loss_margin_seconds", "reason=failed")
		require.NotNil(t, margin)
		assert.Greater(t, margin.Histogram.GetSampleSum(), 1.0, "there was time left to stop")
		assert.InDelta(t, -1, b.value("leasewheel_lease_loss_margin_seconds", "reason=not_owned"), 0)

		deleted := b.lock(b.Mutex("d"))
		b.mem.Delete("d")
		require.ErrorIs(t, deleted.Unlock(ctx), lock.ErrLost)
		assert.InDelta(t, 2, loss("not_owned"), 0, "Unlock has noticed it")
	})
}

// A store that hangs ends leases by their deadline, if failures are tolerated.
func TestARenewalWithoutAnswer(t *testing.T) {
	bubble(t, nil, lock.Options{Renewal: renewal.Options{Failures: -1}}, func(t *testing.T, b *bench) {
		h := b.lock(b.Mutex("k"))
		b.fail(locktest.Renew, nil)
		time.Sleep(12 * time.Second)
		assert.InDelta(t, 1, b.value("leasewheel_renewals_inflight"), 0)
		<-h.Done()
		assert.InDelta(t, 1, b.value("leasewheel_lease_losses_total", "reason=expired"), 0)
		assert.InDelta(t, 1, b.value("leasewheel_lease_loss_margin_seconds", "reason=expired"), 0)
		assert.Positive(t, b.value("leasewheel_renewal_batch_duration_seconds", "error_type=timeout"))
	})
}

// failing is a handler of log records that fails.
type failing struct{ slog.Handler }

func (failing) Enabled(context.Context, slog.Level) bool { return true }

func (failing) Handle(context.Context, slog.Record) error { panic("failing") }

func TestDroppedLogs(t *testing.T) {
	bubble(t, nil, lock.Options{Logger: slog.New(failing{slog.DiscardHandler})}, func(t *testing.T, b *bench) {
		held := b.lock(b.Mutex("a"))
		assert.InDelta(t, 0, b.value("leasewheel_log_drops_total"), 0)
		b.mem.Delete("a")
		<-held.Done()
		assert.InDelta(t, 1, b.value("leasewheel_log_drops_total"), 0)
	})
}

func TestRenewals(t *testing.T) {
	bubble(t, nil, lock.Options{}, func(t *testing.T, b *bench) {
		held := b.lock(lock.Multi(b.Mutex("a"), b.Mutex("b"), b.Mutex("c")))
		assert.InDelta(t, 3, b.value("leasewheel_leases_held"), 0)
		time.Sleep(time.Minute)
		renewed := b.value("leasewheel_renewal_leases_total", "outcome=renewed")
		assert.Greater(t, renewed, 10.0)
		assert.InDelta(t, renewed, b.value("leasewheel_renewal_lateness_seconds"), 0)
		size := b.metric("leasewheel_renewal_batch_size")
		require.NotNil(t, size)
		assert.InDelta(t, renewed, size.Histogram.GetSampleSum(), 0)
		assert.InDelta(t, float64(size.Histogram.GetSampleCount()), b.value("leasewheel_renewal_batch_duration_seconds", "error_type="), 0)
		assert.InDelta(t, 0, b.value("leasewheel_hook_drops_total"), 0)
		assert.InDelta(t, 0, b.value("leasewheel_renewals_due"), 0)
		assert.InDelta(t, 0, b.value("leasewheel_renewal_due_age_seconds"), 0)
		require.NoError(t, held.Unlock(ctx))
		assert.InDelta(t, 1, b.value("leasewheel_lock_hold_duration_seconds", "kind=multi"), 0)
		b.metrics.Instrument(nil).Renewal.Hooks.BatchDone(renewal.BatchInfo{Size: 7})
		assert.InDelta(t, renewed+7, b.metric("leasewheel_renewal_batch_size").Histogram.GetSampleSum(), 0)
	})
}

// The buckets of the lateness are cumulative, and the durations stay in them.
func TestLateness(t *testing.T) {
	bubble(t, nil, lock.Options{Renewal: renewal.Options{InFlight: 1, Failures: -1}}, func(t *testing.T, b *bench) {
		b.lock(b.Mutex("a"))
		b.fail(locktest.Renew, nil) // each call takes until it is too late
		time.Sleep(100 * time.Millisecond)
		b.lock(b.Mutex("b")) // its renewal finds the only call taken
		time.Sleep(time.Minute)
		h := b.metric("leasewheel_renewal_lateness_seconds").GetHistogram()
		var last uint64
		for _, bucket := range h.GetBucket() {
			assert.GreaterOrEqual(t, bucket.GetCumulativeCount(), last)
			last = bucket.GetCumulativeCount()
		}
		assert.Equal(t, h.GetSampleCount(), last, "nothing is later than a minute")
		assert.Positive(t, h.GetSampleSum())
	})
}

func TestReleasesThatArePending(t *testing.T) {
	bubble(t, nil, lock.Options{}, func(t *testing.T, b *bench) {
		h := b.lock(b.Mutex("k"))
		b.fail(locktest.Release, errIO)
		require.ErrorIs(t, h.Unlock(ctx), lock.ErrUnavailable)
		assert.InDelta(t, 1, b.value("leasewheel_releases_pending"), 0)
		b.fail(nothing, nil)
		time.Sleep(time.Minute)
		assert.InDelta(t, 0, b.value("leasewheel_releases_pending"), 0)
	})
}

func TestElections(t *testing.T) {
	bubble(t, &leaseprom.Options{Namer: strings.ToUpper}, lock.Options{}, func(t *testing.T, b *bench) {
		other, err := lock.New(b.mem, nil)
		require.NoError(t, err)
		defer other.Close(ctx)
		leads := func() float64 { return b.value("leasewheel_election_leading", "name=CRON") }
		terms := func() float64 { return b.value("leasewheel_election_transitions_total", "name=CRON") }
		theirs, err := other.Election("cron", "them").TryLock(ctx)
		require.NoError(t, err)
		assert.InDelta(t, -1, leads(), 0)

		term := make(chan *lock.Held, 1)
		go func() {
			h, err := b.Election("cron", "us").Campaign(ctx)
			assert.NoError(t, err)
			term <- h
		}()
		assert.InDelta(t, 0, leads(), 0, "a candidate that waits has a series")
		assert.InDelta(t, 0, terms(), 0)
		require.NoError(t, theirs.Unlock(ctx))
		ours := <-term
		assert.InDelta(t, 1, leads(), 0)
		assert.InDelta(t, 1, terms(), 0)
		require.NoError(t, ours.Unlock(ctx))
		assert.InDelta(t, 0, leads(), 0)

		ours = b.lock(b.Election("cron", "us"))
		b.mem.Delete("cron")
		<-ours.Done()
		assert.InDelta(t, 0, leads(), 0)
		assert.InDelta(t, 2, terms(), 0)
	})
}

func TestNames(t *testing.T) {
	first := func(key string) string { name, _, _ := strings.Cut(key, ":"); return name }
	bubble(t, &leaseprom.Options{Namer: first}, lock.Options{}, func(t *testing.T, b *bench) {
		for _, key := range []string{"orders:1", "orders:2", "users:1", "\xff:1"} {
			require.NoError(t, b.lock(b.Mutex(key)).Unlock(ctx))
		}
		for name, n := range map[string]float64{"orders": 2, "users": 1, "\uFFFD": 1} {
			assert.InDelta(t, n, b.value("leasewheel_lock_acquire_duration_seconds", "name="+name), 0)
			assert.InDelta(t, n, b.value("leasewheel_lock_hold_duration_seconds", "name="+name), 0)
			assert.InDelta(t, 0, b.value("leasewheel_lease_losses_total", "name="+name, "reason=failed"), 0)
		}
	})
}

// Without a Namer no label depends on a key.
func TestNoKeyIsALabel(t *testing.T) {
	bubble(t, nil, lock.Options{}, func(t *testing.T, b *bench) {
		count := func() int {
			n, err := testutil.GatherAndCount(b.registry)
			require.NoError(t, err)
			return n
		}
		work := func(key string) {
			h := b.lock(b.Mutex(key))
			_, _ = b.Mutex(key).TryLock(ctx)
			b.mem.Delete(key)
			<-h.Done()
			time.Sleep(time.Second)
		}
		work("first")
		before := count()
		work("second")
		work("third")
		assert.Equal(t, before, count())
	})
}

func TestTimerEngines(t *testing.T) {
	for label, open := range map[string]func() (engine, error){
		"wheel": func() (engine, error) { return wheel.New(nil) },
		"heap":  func() (engine, error) { return heapqueue.NewScheduler(nil) },
	} {
		synctest.Test(t, func(t *testing.T) {
			e, err := open()
			require.NoError(t, err)
			defer e.Close()
			metrics, err := leaseprom.New(nil)
			require.NoError(t, err)
			client, err := metrics.NewClient(memstore.New(), &lock.Options{Scheduler: e})
			require.NoError(t, err)
			defer client.Close(ctx)
			_, err = client.Mutex("k").Lock(ctx)
			require.NoError(t, err)
			time.Sleep(time.Minute)
			b := &bench{t: t, registry: prometheus.NewPedanticRegistry()}
			require.NoError(t, b.registry.Register(metrics))
			engine := "engine=" + label
			assert.InDelta(t, 1, b.value("leasewheel_timers_pending", engine), 0)
			assert.Positive(t, b.value("leasewheel_timer_fired_total", engine))
			assert.Positive(t, b.value("leasewheel_timer_wakeups_total", engine))
			assert.InDelta(t, 0, b.value("leasewheel_timer_panics_total", engine), 0)
			assert.InDelta(t, 0, b.value("leasewheel_timer_log_drops_total", engine), 0)
			assert.GreaterOrEqual(t, b.value("leasewheel_timer_lateness_max_seconds", engine), 0.0)
			assert.GreaterOrEqual(t, b.value("leasewheel_timer_task_max_seconds", engine), 0.0)
		})
	}
}

// The hooks of the user are called, too, and the options are not changed.
func TestTheHooksOfTheUserStay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex // guards calls
		calls := map[string]int{}
		count := func(name string) {
			mu.Lock()
			defer mu.Unlock()
			calls[name]++
		}
		hook := func(name string) func(context.Context, lock.HookInfo) {
			return func(context.Context, lock.HookInfo) { count(name) }
		}
		enter := func(name string) func(context.Context, lock.HookInfo) context.Context {
			return func(ctx context.Context, _ lock.HookInfo) context.Context { count(name); return ctx }
		}
		o := &lock.Options{
			Hooks: &lock.Hooks{
				Acquiring: enter("acquiring"), Releasing: enter("releasing"),
				Waiting: hook("waiting"), Acquired: hook("acquired"), Refused: hook("refused"), Released: hook("released"), Lost: hook("lost"),
			},
			Renewal: renewal.Options{Hooks: &renewal.Hooks{BatchDone: func(renewal.BatchInfo) { count("batch") }}},
		}
		metrics, err := leaseprom.New(nil)
		require.NoError(t, err)
		mem := memstore.New()
		client, err := metrics.NewClient(mem, o)
		require.NoError(t, err)
		defer client.Close(ctx)
		lost, err := client.Mutex("lost").Lock(ctx)
		require.NoError(t, err)
		limited, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		_, err = client.Mutex("lost").Lock(limited)
		require.Error(t, err)
		mem.Delete("lost")
		<-lost.Done()
		h, err := client.Mutex("k").Lock(ctx)
		require.NoError(t, err)
		require.NoError(t, h.Unlock(ctx))
		synctest.Wait()
		mu.Lock()
		defer mu.Unlock()
		assert.Equal(t, map[string]int{
			"acquiring": 3, "releasing": 1, "waiting": 1, "acquired": 2, "refused": 1, "released": 1, "lost": 1, "batch": 1,
		}, calls)
	})
}

// Instrument leaves the options as they are, so that they can serve another client.
func TestInstrumentCopiesTheOptions(t *testing.T) {
	metrics, err := leaseprom.New(nil)
	require.NoError(t, err)
	o := &lock.Options{MaxWaiters: 7, Hooks: new(lock.Hooks), Renewal: renewal.Options{Hooks: new(renewal.Hooks)}}
	got := metrics.Instrument(o)
	assert.Equal(t, 7, got.MaxWaiters)
	assert.NotNil(t, got.Hooks.Acquired)
	assert.Nil(t, o.Hooks.Acquired)
	assert.Nil(t, o.Renewal.Hooks.BatchDone)
	assert.NotNil(t, metrics.Instrument(nil).Hooks.Lost)
}

func TestTheMetricsAreLinted(t *testing.T) {
	bubble(t, &leaseprom.Options{Namer: strings.ToUpper}, lock.Options{}, func(t *testing.T, b *bench) {
		require.NoError(t, b.lock(b.Election("e", "me")).Unlock(ctx))
		problems, err := testutil.GatherAndLint(b.registry)
		require.NoError(t, err)
		assert.Equal(t, []promlint.Problem(nil), problems)
	})
}

func TestTwoClientsInOneRegistry(t *testing.T) {
	registry := prometheus.NewPedanticRegistry()
	for _, store := range []string{"a", "b"} {
		m, err := leaseprom.New(&leaseprom.Options{Store: store})
		require.NoError(t, err)
		require.NoError(t, registry.Register(m))
	}
	again, err := leaseprom.New(&leaseprom.Options{Store: "a"})
	require.NoError(t, err)
	require.ErrorAs(t, registry.Register(again), new(prometheus.AlreadyRegisteredError))
	_, err = registry.Gather()
	require.NoError(t, err, "metrics without a client")
}

func TestBadOptions(t *testing.T) {
	for field, o := range map[string]*leaseprom.Options{
		"AcquireBuckets": {AcquireBuckets: []float64{1, 1}},
		"HoldBuckets":    {HoldBuckets: []float64{2, 1}},
		"Store":          {Store: "\xff"},
	} {
		_, err := leaseprom.New(o)
		require.ErrorContains(t, err, "leaseprom: Options."+field)
	}
	m, err := leaseprom.New(nil)
	require.NoError(t, err)
	_, err = m.NewClient(nil, nil)
	require.Error(t, err)
}

// askingStore is a store that has asked replicas.
type askingStore struct{ *memstore.Store }

func (askingStore) Describe() driver.Description {
	return driver.Description{Replicas: driver.ReplicaStats{Enough: 5, TooFew: 3, Unanswered: 2}}
}

func TestConfirmationsByReplicas(t *testing.T) {
	bubble(t, nil, lock.Options{}, func(t *testing.T, b *bench) {
		c, err := lock.New(askingStore{memstore.New()}, nil)
		require.NoError(t, err)
		defer c.Close(ctx)
		count := func(outcome string) float64 {
			return b.value("leasewheel_replica_confirmations_total", "outcome="+outcome)
		}
		assert.InDelta(t, 0, count("too_few"), 0, "a store that does not ask")
		b.metrics.Watch(c)
		assert.InDelta(t, 5, count("enough"), 0)
		assert.InDelta(t, 3, count("too_few"), 0)
		assert.InDelta(t, 2, count("unanswered"), 0)
	})
}
