package check

import (
	"context"
	"log/slog"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"

	leaseotel "github.com/leasewheel/leasewheel/contrib/plugin/otel"
	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/wheel"
)

func TestAcquireAndHold(t *testing.T) {
	bubble(t, leaseotel.Options{}, lock.Options{}, func(t *testing.T, b *bench) {
		h := b.lock(b.Mutex("k"))
		assert.InDelta(t, 1, b.value("lease.held", attr("store", "default")), 0)
		_, err := b.Mutex("k").TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		limited, cancel := context.WithTimeout(ctx, 3*time.Second)
		defer cancel()
		done := make(chan error, 1)
		go func() {
			_, err := b.Mutex("k").Lock(limited)
			done <- err
		}()
		assert.InDelta(t, 1, b.value("lock.waiter"), 0)
		require.ErrorIs(t, <-done, lock.ErrNotAcquired)
		assert.InDelta(t, 0, b.value("lock.waiter"), 0)
		time.Sleep(2 * time.Second)
		require.NoError(t, h.Unlock(ctx))

		none := attribute.String("error.type", "")
		assert.InDelta(t, 1, b.value("lock.acquire.duration", attr("lock.kind", "mutex"), attr("outcome", "acquired"), none), 0)
		assert.InDelta(t, 1, b.value("lock.acquire.duration", attr("outcome", "held_by_other"), none), 0)
		canceled, _ := b.point("lock.acquire.duration", attr("outcome", "canceled"), none)
		assert.InDelta(t, 3, canceled.sum, 1e-9)
		assert.Equal(t, "s", canceled.unit)
		unlocked, _ := b.point("lock.hold.duration", attr("lock.kind", "mutex"), attr("end", "unlocked"))
		assert.InDelta(t, 5, unlocked.sum, 1e-9)
		assert.InDelta(t, 0, b.value("lease.held"), 0)

		b.lock(b.Semaphore("s", 1))
		require.NoError(t, b.Close(ctx))
		assert.InDelta(t, 1, b.value("lock.hold.duration", attr("lock.kind", "semaphore"), attr("end", "closed")), 0)
		_, err = b.Mutex("k").TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrClosed)
		assert.InDelta(t, 1, b.value("lock.acquire.duration", attr("outcome", "error"), attribute.String("error.type", "closed")), 0)
	})
}

func TestErrorTypes(t *testing.T) {
	bubble(t, leaseotel.Options{}, lock.Options{MaxWaiters: 1}, func(t *testing.T, b *bench) {
		count := func(outcome, typ string) float64 {
			return b.value("lock.acquire.duration", attr("outcome", outcome), attribute.String("error.type", typ))
		}
		for typ, err := range map[string]error{"unavailable": errIO, "timeout": context.DeadlineExceeded} {
			b.fail(locktest.Acquire, err)
			_, err := b.Mutex("k").TryLock(ctx)
			require.ErrorIs(t, err, lock.ErrUnavailable)
			assert.InDelta(t, 1, count("unavailable", typ), 0, typ)
		}
		b.fail("", nil)
		h := b.lock(b.Mutex("k"))
		_, err := b.Semaphore("k", 1).TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrWrongType)
		assert.InDelta(t, 1, count("error", "wrong_type"), 0)
		waits := make(chan error, 1)
		go func() {
			h, err := b.Mutex("k").Lock(ctx)
			_ = h.Unlock(ctx)
			waits <- err
		}()
		synctest.Wait()
		_, err = b.Mutex("k").Lock(ctx)
		require.ErrorIs(t, err, lock.ErrTooMany)
		assert.InDelta(t, 1, count("error", "too_many"), 0)
		require.NoError(t, h.Unlock(ctx))
		require.NoError(t, <-waits)
	})
}

// Each reason has a counter, which exists before the first loss.
func TestLosses(t *testing.T) {
	bubble(t, leaseotel.Options{Store: "redis"}, lock.Options{}, func(t *testing.T, b *bench) {
		loss := func(reason string) float64 {
			return b.value("lease.losses", attr("loss.reason", reason), attr("lock.kind", "mutex"), attr("store", "redis"))
		}
		h := b.lock(b.Mutex("k"))
		for _, reason := range []string{"not_owned", "failed", "expired", "limit_reached"} {
			assert.InDelta(t, 0, loss(reason), 0, reason)
		}
		b.mem.Delete("k")
		<-h.Done()
		assert.InDelta(t, 1, loss("not_owned"), 0)
		assert.InDelta(t, 1, b.value("renewal.leases", attr("outcome", "not_owned")), 0)

		<-b.lock(b.With(lock.Terms{MaxHold: time.Minute}).Mutex("l")).Done()
		assert.InDelta(t, 1, loss("limit_reached"), 0)
		assert.InDelta(t, 1, b.value("lock.hold.duration", attr("end", "limit_reached")), 0)

		h = b.lock(b.Mutex("k"))
		b.fail(locktest.Renew, errIO)
		<-h.Done()
		assert.InDelta(t, 1, loss("failed"), 0)
		assert.InDelta(t, 0, loss("expired"), 0)
		assert.InDelta(t, 2, b.value("lock.hold.duration", attr("end", "lost")), 0)
		assert.InDelta(t, 2, b.value("renewal.leases", attr("outcome", "unknown")), 0)
		assert.Positive(t, b.value("renewal.batch.duration", attribute.String("error.type", "unavailable")))
		margin, _ := b.point("lease.loss.margin", attr("loss.reason", "failed"))
		assert.Greater(t, margin.sum, 1.0, "there was time left to stop")
		assert.InDelta(t, -1, b.value("lease.loss.margin", attr("loss.reason", "not_owned")), 0)
	})
}

func TestARenewalWithoutAnswer(t *testing.T) {
	bubble(t, leaseotel.Options{}, lock.Options{Renewal: renewal.Options{Failures: -1}}, func(t *testing.T, b *bench) {
		h := b.lock(b.Mutex("k"))
		b.fail(locktest.Renew, nil)
		time.Sleep(12 * time.Second)
		assert.InDelta(t, 1, b.value("renewal.inflight"), 0)
		<-h.Done()
		assert.InDelta(t, 1, b.value("lease.losses", attr("loss.reason", "expired")), 0)
		assert.InDelta(t, 1, b.value("lease.loss.margin", attr("loss.reason", "expired")), 0)
		assert.Positive(t, b.value("renewal.batch.duration", attribute.String("error.type", "timeout")))
	})
}

// failing is a handler of log records that fails.
type failing struct{ slog.Handler }

func (failing) Enabled(context.Context, slog.Level) bool { return true }

func (failing) Handle(context.Context, slog.Record) error { panic("failing") }

func TestDroppedLogs(t *testing.T) {
	bubble(t, leaseotel.Options{}, lock.Options{Logger: slog.New(failing{slog.DiscardHandler})}, func(t *testing.T, b *bench) {
		held := b.lock(b.Mutex("a"))
		assert.InDelta(t, 0, b.value("log.drops"), 0)
		b.mem.Delete("a")
		<-held.Done()
		assert.InDelta(t, 1, b.value("log.drops"), 0)
	})
}

func TestRenewals(t *testing.T) {
	bubble(t, leaseotel.Options{}, lock.Options{}, func(t *testing.T, b *bench) {
		b.lock(lock.Multi(b.Mutex("a"), b.Mutex("b"), b.Mutex("c")))
		assert.InDelta(t, 3, b.value("lease.held"), 0)
		time.Sleep(time.Minute)
		renewed := b.value("renewal.leases", attr("outcome", "renewed"))
		assert.Greater(t, renewed, 10.0)
		size, _ := b.point("renewal.batch.size")
		assert.InDelta(t, renewed, size.sum, 0)
		assert.InDelta(t, size.value, b.value("renewal.lateness"), 0)
		assert.InDelta(t, size.value, b.value("renewal.batch.duration", attribute.String("error.type", "")), 0)
		for _, zero := range []string{"hook.drops", "renewal.due", "renewal.due.age", "renewal.inflight", "release.pending"} {
			assert.InDelta(t, 0, b.value(zero), 0, zero)
		}
	})
}

func TestElections(t *testing.T) {
	bubble(t, leaseotel.Options{Namer: strings.ToUpper}, lock.Options{}, func(t *testing.T, b *bench) {
		other, err := lock.New(b.mem, nil)
		require.NoError(t, err)
		defer other.Close(ctx)
		name := attr("election.name", "CRON")
		theirs, err := other.Election("cron", "them").TryLock(ctx)
		require.NoError(t, err)
		term := make(chan *lock.Held, 1)
		go func() {
			h, err := b.Election("cron", "us").Campaign(ctx)
			assert.NoError(t, err)
			term <- h
		}()
		assert.InDelta(t, 0, b.value("election.leading", name), 0, "a candidate that waits")
		require.NoError(t, theirs.Unlock(ctx))
		ours := <-term
		assert.InDelta(t, 1, b.value("election.leading", name), 0)
		require.NoError(t, ours.Unlock(ctx))
		assert.InDelta(t, 0, b.value("election.leading", name), 0)
		ours = b.lock(b.Election("cron", "us"))
		b.mem.Delete("cron")
		<-ours.Done()
		assert.InDelta(t, 0, b.value("election.leading", name), 0)
		assert.InDelta(t, 2, b.value("election.transitions", name), 0)
	})
}

// Without a Namer no attribute depends on a key.
func TestNames(t *testing.T) {
	first := func(key string) string { name, _, _ := strings.Cut(key, ":"); return name }
	for _, namer := range []func(string) string{nil, first} {
		bubble(t, leaseotel.Options{Namer: namer}, lock.Options{}, func(t *testing.T, b *bench) {
			for _, key := range []string{"orders:1", "orders:2", "users:1", "\xff:1"} {
				require.NoError(t, b.lock(b.Mutex(key)).Unlock(ctx))
			}
			want := map[string]float64{"orders": 2, "users": 1, "\uFFFD": 1}
			if namer == nil {
				want = map[string]float64{"": 4}
			}
			for name, n := range want {
				assert.InDelta(t, n, b.value("lock.acquire.duration", attr("lock.name", name)), 0)
				assert.InDelta(t, n, b.value("lock.hold.duration", attr("lock.name", name)), 0)
				assert.InDelta(t, 0, b.value("lease.losses", attr("lock.name", name)), 0)
			}
			assert.Len(t, b.points()["leasewheel.lock.hold.duration"], len(want))
			for _, span := range b.ended() {
				for _, a := range span.Attributes {
					assert.NotContains(t, a.Value.String(), ":1", "a key")
				}
			}
		})
	}
}

func TestTimerEngines(t *testing.T) {
	type engine interface {
		schedule.Scheduler
		Close() []schedule.Task
	}
	for label, open := range map[string]func() (engine, error){
		"wheel": func() (engine, error) { return wheel.New(nil) },
		"heap":  func() (engine, error) { return heapqueue.NewScheduler(nil) },
	} {
		synctest.Test(t, func(t *testing.T) {
			e, err := open()
			require.NoError(t, err)
			defer e.Close()
			b := newBench(t, leaseotel.Options{})
			client, err := b.telemetry.NewClient(b.mem, &lock.Options{Scheduler: e})
			require.NoError(t, err)
			defer client.Close(ctx)
			b.lock(client.Mutex("k"))
			time.Sleep(time.Minute)
			is := attr("engine", label)
			assert.InDelta(t, 1, b.value("timer.pending", is), 0)
			assert.Positive(t, b.value("timer.fired", is))
			assert.Positive(t, b.value("timer.wakeups", is))
			assert.InDelta(t, 0, b.value("timer.panics", is), 0)
			assert.InDelta(t, 0, b.value("timer.log.drops", is), 0)
			assert.GreaterOrEqual(t, b.value("timer.lateness.max", is), 0.0)
			assert.GreaterOrEqual(t, b.value("timer.task.max", is), 0.0)
			require.NoError(t, b.telemetry.Close())
			assert.InDelta(t, -1, b.value("timer.pending", is), 0)
			require.NoError(t, b.telemetry.Close())
		})
	}
}

// TestTheNamesFollowTheConventions checks the rules of OpenTelemetry for names and units, and that
// the package comment lists each metric with its unit.
func TestTheNamesFollowTheConventions(t *testing.T) {
	text, err := os.ReadFile("../doc.go")
	require.NoError(t, err)
	listed := regexp.MustCompile(`(?m)^//\t(leasewheel\.\S+) +\w+ +(\S+)`).FindAllStringSubmatch(string(text), -1)
	require.NotEmpty(t, listed)
	synctest.Test(t, func(t *testing.T) {
		engine, err := wheel.New(nil)
		require.NoError(t, err)
		defer engine.Close()
		b := newBench(t, leaseotel.Options{Namer: strings.ToUpper})
		store := (&locktest.Faulty{Before: func(ctx context.Context, op locktest.Op) error {
			return b.fault.Load().(func(context.Context, locktest.Op) error)(ctx, op)
		}}).Over(b.mem)
		client, err := b.telemetry.NewClient(store, &lock.Options{Scheduler: engine})
		require.NoError(t, err)
		defer client.Close(ctx)
		h := b.lock(client.Election("e", "me"))
		time.Sleep(time.Minute)
		b.fail(locktest.Renew, errIO)
		<-h.Done()
		all := b.points()
		for _, m := range listed {
			if assert.NotEmpty(t, all[m[1]], m[1]) {
				assert.Equal(t, m[2], all[m[1]][0].unit, m[1])
			}
		}
		assert.Len(t, all, len(listed), "the package comment lacks a metric")
		for name, points := range all {
			assert.Regexp(t, `^leasewheel(\.[a-z]+)+$`, name)
			assert.NotRegexp(t, `total|seconds`, name)
			for _, p := range points {
				assert.Regexp(t, `^(s|\{[a-z]+\})$`, p.unit, name)
				for _, a := range p.attributes.ToSlice() {
					assert.Regexp(t, `^(leasewheel(\.[a-z]+)+|error\.type)$`, string(a.Key), name)
				}
			}
		}
	})
}

func TestBadOptions(t *testing.T) {
	_, err := leaseotel.New(&leaseotel.Options{Store: "\xff"})
	require.ErrorContains(t, err, "leaseotel: Options.Store")
	global, err := leaseotel.New(nil)
	require.NoError(t, err, "the global providers")
	_, err = global.NewClient(nil, nil)
	require.Error(t, err)
	client, err := global.NewClient(memstore.New(), nil)
	require.NoError(t, err)
	h, err := client.Mutex("k").Lock(ctx)
	require.NoError(t, err)
	require.NoError(t, h.Unlock(ctx))
	require.NoError(t, client.Close(ctx))
	require.NoError(t, global.Close())
}

// askingStore is a store that has asked replicas.
type askingStore struct{ *memstore.Store }

func (askingStore) Describe() driver.Description {
	return driver.Description{Replicas: driver.ReplicaStats{Enough: 5, TooFew: 3, Unanswered: 2}}
}

func TestConfirmationsByReplicas(t *testing.T) {
	bubble(t, leaseotel.Options{}, lock.Options{}, func(t *testing.T, b *bench) {
		c, err := lock.New(askingStore{memstore.New()}, nil)
		require.NoError(t, err)
		defer c.Close(ctx)
		count := func(outcome string) float64 {
			return b.value("replica.confirmations", attr("outcome", outcome))
		}
		assert.InDelta(t, 0, count("too_few"), 0, "a store that does not ask")
		b.telemetry.Watch(c)
		assert.InDelta(t, 5, count("enough"), 0)
		assert.InDelta(t, 3, count("too_few"), 0)
		assert.InDelta(t, 2, count("unanswered"), 0)
	})
}
