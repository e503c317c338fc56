// The cases: what each package counts, and when.

package metrictest

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/wheel"
)

const (
	acquire = "lock_acquire_duration_seconds"
	hold    = "lock_hold_duration_seconds"
)

// Run runs the suite. open returns a plugin with metrics of its own.
func Run(t *testing.T, open func(t *testing.T, o Options) Plugin) {
	for name, test := range map[string]struct {
		plugin  Options
		options lock.Options
		f       func(t *testing.T, b *Bench)
	}{
		"acquire and hold": {f: acquireAndHold},
		"error types":      {options: lock.Options{MaxWaiters: 1}, f: errorTypes},
		"losses":           {plugin: Options{Store: "redis"}, f: losses},
		"no answer":        {options: lock.Options{Renewal: renewal.Policy{Failures: -1}}, f: noAnswer},
		"dropped logs":     {options: lock.Options{Logger: slog.New(failing{slog.DiscardHandler})}, f: droppedLogs},
		"renewals":         {f: renewals},
		"releases":         {f: releases},
		"elections":        {plugin: Options{Namer: strings.ToUpper}, f: elections},
		"names":            {plugin: Options{Namer: func(key string) string { name, _, _ := strings.Cut(key, ":"); return name }}, f: names},
		"no names":         {f: noNames},
		"replicas":         {f: replicas},
		"engines":          {f: engines},
		"hooks":            {f: hooks},
	} {
		t.Run(name, func(t *testing.T) {
			Bubble(t, func(t *testing.T) Plugin { return open(t, test.plugin) }, test.options, test.f)
		})
	}
}

func acquireAndHold(t *testing.T, b *Bench) {
	h := b.Take(b.Mutex("k"))
	b.Is(1, "leases_held", "store=default")
	_, err := b.Mutex("k").TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrNotAcquired)
	limited, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	done := make(chan error, 1)
	go func() {
		_, err := b.Mutex("k").Lock(limited)
		done <- err
	}()
	b.Is(1, "lock_waiters")
	require.ErrorIs(t, <-done, lock.ErrNotAcquired)
	b.Is(0, "lock_waiters")
	time.Sleep(2 * time.Second)
	require.NoError(t, h.Unlock(ctx))

	b.Is(1, acquire, "kind=mutex", "outcome=acquired", "error_type=")
	b.Is(1, acquire, "kind=mutex", "outcome=held_by_other", "error_type=")
	assert.InDelta(t, 3, b.Sum(acquire, "outcome=canceled", "error_type="), 1e-9)
	assert.InDelta(t, 5, b.Sum(hold, "kind=mutex", "end=unlocked", "store=default"), 1e-9)
	b.Is(0, "leases_held")

	b.Take(b.Semaphore("s", 1))
	require.NoError(t, b.Client.Close(ctx))
	b.Is(1, hold, "kind=semaphore", "end=closed")
	_, err = b.Mutex("k").TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrClosed)
	b.Is(1, acquire, "outcome=error", "error_type=closed")
}

func errorTypes(t *testing.T, b *Bench) {
	for typ, err := range map[string]error{"unavailable": ErrIO, "timeout": context.DeadlineExceeded} {
		b.Fail(locktest.Acquire, err)
		_, err := b.Mutex("k").TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrUnavailable)
		b.Is(1, acquire, "outcome=unavailable", "error_type="+typ)
	}
	b.Fail("", nil)
	h := b.Take(b.Mutex("k"))
	_, err := b.Semaphore("k", 1).TryLock(ctx)
	require.ErrorIs(t, err, lock.ErrWrongType)
	b.Is(1, acquire, "kind=semaphore", "outcome=error", "error_type=wrong_type")
	waits := make(chan error, 1)
	go func() {
		h, err := b.Mutex("k").Lock(ctx)
		_ = h.Unlock(ctx)
		waits <- err
	}()
	synctest.Wait()
	_, err = b.Mutex("k").Lock(ctx)
	require.ErrorIs(t, err, lock.ErrTooMany)
	b.Is(1, acquire, "outcome=error", "error_type=too_many")
	require.NoError(t, h.Unlock(ctx))
	require.NoError(t, <-waits)
}

// Each reason has a counter, which exists before the first loss.
func losses(t *testing.T, b *Bench) {
	is := func(want float64, reason string) {
		t.Helper()
		b.Is(want, "lease_losses_total", "reason="+reason, "kind=mutex", "store=redis")
	}
	is(-1, "failed")
	h := b.Take(b.Mutex("k"))
	for _, reason := range []string{"not_owned", "failed", "expired", "limit_reached"} {
		is(0, reason)
	}
	b.Mem.Delete("k")
	<-h.Done()
	is(1, "not_owned")
	b.Is(1, "renewal_leases_total", "outcome=not_owned")

	<-b.Take(b.With(lock.Terms{MaxHold: time.Minute}).Mutex("l")).Done()
	is(1, "limit_reached")
	b.Is(1, hold, "end=limit_reached")

	h = b.Take(b.Mutex("k"))
	b.Fail(locktest.Renew, ErrIO)
	<-h.Done()
	is(1, "failed")
	is(0, "expired")
	b.Is(2, hold, "end=lost")
	b.Is(2, "renewal_leases_total", "outcome=unknown")
	assert.Positive(t, b.Value("renewal_batch_duration_seconds", "error_type=unavailable"))
	assert.Greater(t, b.Sum("lease_loss_margin_seconds", "reason=failed"), 1.0, "there was time left to stop")
	b.Is(-1, "lease_loss_margin_seconds", "reason=not_owned")

	deleted := b.Take(b.Mutex("d"))
	b.Mem.Delete("d")
	require.ErrorIs(t, deleted.Unlock(ctx), lock.ErrLost)
	is(2, "not_owned") // Unlock has noticed it
}

// A store that hangs ends leases by their deadline, if failures are tolerated.
func noAnswer(t *testing.T, b *Bench) {
	h := b.Take(b.Mutex("k"))
	b.Fail(locktest.Renew, nil)
	time.Sleep(12 * time.Second)
	b.Is(1, "renewals_inflight")
	<-h.Done()
	b.Is(1, "lease_losses_total", "reason=expired")
	b.Is(1, "lease_loss_margin_seconds", "reason=expired")
	assert.Positive(t, b.Value("renewal_batch_duration_seconds", "error_type=timeout"))
}

// failing is a handler of log records that fails.
type failing struct{ slog.Handler }

func (failing) Enabled(context.Context, slog.Level) bool { return true }

func (failing) Handle(context.Context, slog.Record) error { panic("failing") }

func droppedLogs(_ *testing.T, b *Bench) {
	held := b.Take(b.Mutex("a"))
	b.Is(0, "log_drops_total")
	b.Mem.Delete("a")
	<-held.Done()
	b.Is(1, "log_drops_total")
}

func renewals(t *testing.T, b *Bench) {
	held := b.Take(lock.Multi(b.Mutex("a"), b.Mutex("b"), b.Mutex("c")))
	b.Is(3, "leases_held")
	time.Sleep(time.Minute)
	renewed := b.Value("renewal_leases_total", "outcome=renewed")
	assert.Greater(t, renewed, 10.0)
	assert.InDelta(t, renewed, b.Sum("renewal_batch_size"), 0)
	b.Is(b.Value("renewal_batch_size"), "renewal_batch_duration_seconds", "error_type=")
	for _, zero := range []string{"hook_drops_total", "renewals_due", "renewal_due_age_seconds", "renewals_inflight", "releases_pending"} {
		b.Is(0, zero)
	}
	require.NoError(t, held.Unlock(ctx))
	b.Is(1, hold, "kind=multi")
}

func releases(t *testing.T, b *Bench) {
	h := b.Take(b.Mutex("k"))
	b.Fail(locktest.Release, ErrIO)
	require.ErrorIs(t, h.Unlock(ctx), lock.ErrUnavailable)
	b.Is(1, "releases_pending")
	b.Fail("", nil)
	time.Sleep(time.Minute)
	b.Is(0, "releases_pending")
}

func elections(t *testing.T, b *Bench) {
	other, err := lock.New(b.Mem, nil)
	require.NoError(t, err)
	defer other.Close(ctx)
	const leading, terms, name = "election_leading", "election_transitions_total", "name=CRON"
	theirs, err := other.Election("cron", "them").TryLock(ctx)
	require.NoError(t, err)
	b.Is(-1, leading, name)

	term := make(chan *lock.Held, 1)
	go func() {
		h, err := b.Election("cron", "us").Campaign(ctx)
		assert.NoError(t, err)
		term <- h
	}()
	b.Is(0, leading, name) // a candidate that waits
	require.NoError(t, theirs.Unlock(ctx))
	ours := <-term
	b.Is(1, leading, name)
	b.Is(1, terms, name)
	require.NoError(t, ours.Unlock(ctx))
	b.Is(0, leading, name)

	ours = b.Take(b.Election("cron", "us"))
	b.Mem.Delete("cron")
	<-ours.Done()
	b.Is(0, leading, name)
	b.Is(2, terms, name)
}

func names(t *testing.T, b *Bench) {
	for _, key := range []string{"orders:1", "orders:2", "users:1", "\xff:1"} {
		require.NoError(t, b.Take(b.Mutex(key)).Unlock(ctx))
	}
	for name, n := range map[string]float64{"orders": 2, "users": 1, "\uFFFD": 1} {
		b.Is(n, acquire, "name="+name)
		b.Is(n, hold, "name="+name)
		b.Is(0, "lease_losses_total", "name="+name, "reason=failed")
	}
}

// Without a Namer no label depends on a key.
func noNames(t *testing.T, b *Bench) {
	for n, key := range []string{"first", "second", "third"} {
		h := b.Take(b.Mutex(key))
		_, err := b.Mutex(key).TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		b.Mem.Delete(key)
		<-h.Done()
		b.Is(float64(n+1), acquire, "outcome=acquired")
		b.Is(float64(n+1), acquire, "outcome=held_by_other")
		b.Is(float64(n+1), hold, "end=lost")
		b.Is(float64(n+1), "lease_losses_total", "reason=not_owned")
	}
}

// asking is a store that has asked replicas.
type asking struct{ *memstore.Store }

func (asking) Describe() driver.Description {
	return driver.Description{Replicas: driver.ReplicaStats{Enough: 5, TooFew: 3, Unanswered: 2}}
}

func replicas(t *testing.T, b *Bench) {
	c, err := lock.New(asking{memstore.New()}, nil)
	require.NoError(t, err)
	defer c.Close(ctx)
	b.Is(0, "replica_confirmations_total", "outcome=too_few") // a store that does not ask
	b.Watch(c)
	b.Is(5, "replica_confirmations_total", "outcome=enough")
	b.Is(3, "replica_confirmations_total", "outcome=too_few")
	b.Is(2, "replica_confirmations_total", "outcome=unanswered")
}

func engines(t *testing.T, b *Bench) {
	type engine interface {
		schedule.Scheduler
		Close() []schedule.Task
	}
	for label, open := range map[string]func() (engine, error){
		"wheel": func() (engine, error) { return wheel.New(nil) },
		"heap":  func() (engine, error) { return heapqueue.NewScheduler(nil) },
	} {
		e, err := open()
		require.NoError(t, err)
		client, err := b.NewClient(memstore.New(), &lock.Options{Scheduler: e})
		require.NoError(t, err)
		b.Take(client.Mutex("k"))
		time.Sleep(time.Minute)
		is := "engine=" + label
		b.Is(1, "timers_pending", is)
		assert.Positive(t, b.Value("timer_fired_total", is))
		assert.Positive(t, b.Value("timer_wakeups_total", is))
		b.Is(0, "timer_panics_total", is)
		b.Is(0, "timer_log_drops_total", is)
		assert.GreaterOrEqual(t, b.Value("timer_lateness_max_seconds", is), 0.0)
		assert.GreaterOrEqual(t, b.Value("timer_task_max_seconds", is), 0.0)
		require.NoError(t, client.Close(ctx))
		e.Close()
	}
}

// The hooks of the user are called, too.
func hooks(t *testing.T, b *Bench) {
	var mu sync.Mutex // guards calls
	calls := map[string]int{}
	note := func(ctx context.Context, name string) {
		mu.Lock()
		defer mu.Unlock()
		calls[name]++
		assert.True(t, b.Hooked(ctx), name)
	}
	hook := func(name string) func(context.Context, lock.HookInfo) {
		return func(ctx context.Context, _ lock.HookInfo) { note(ctx, name) }
	}
	enter := func(name string) func(context.Context, lock.HookInfo) context.Context {
		return func(ctx context.Context, _ lock.HookInfo) context.Context { note(ctx, name); return nil }
	}
	mem := memstore.New()
	client, err := b.NewClient(mem, &lock.Options{
		Hooks: &lock.Hooks{
			Acquiring: enter("acquiring"), Releasing: enter("releasing"),
			Waiting: hook("waiting"), Acquired: hook("acquired"), Refused: hook("refused"), Released: hook("released"), Lost: hook("lost"),
			BatchDone: func(renewal.BatchInfo) {
				mu.Lock()
				defer mu.Unlock()
				calls["batch"]++
			},
		},
	})
	require.NoError(t, err)
	defer client.Close(ctx)
	lost := b.Take(client.Mutex("lost"))
	limited, cancel := context.WithTimeout(ctx, time.Second)
	defer cancel()
	_, err = client.Mutex("lost").Lock(limited)
	require.Error(t, err)
	mem.Delete("lost")
	<-lost.Done()
	require.NoError(t, b.Take(client.Mutex("k")).Unlock(ctx))
	synctest.Wait()
	mu.Lock()
	defer mu.Unlock()
	assert.Equal(t, map[string]int{
		"acquiring": 3, "releasing": 1, "waiting": 1, "acquired": 2, "refused": 1, "released": 1, "lost": 1, "batch": 1,
	}, calls)
}
