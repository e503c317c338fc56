package check

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/leasewheel/leasewheel/contrib/plugin/internal/metrictest"
	leaseotel "github.com/leasewheel/leasewheel/contrib/plugin/otel"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/renewal"
)

// only returns the one span with a name.
func only(t *testing.T, spans tracetest.SpanStubs, name string) tracetest.SpanStub {
	t.Helper()
	var found tracetest.SpanStubs
	for _, s := range spans {
		if s.Name == name {
			found = append(found, s)
		}
	}
	require.Len(t, found, 1, name)
	return found[0]
}

func TestTheSpanOfAnAcquisition(t *testing.T) {
	bubble(t, leaseotel.Options{Store: "redis"}, lock.Options{}, func(t *testing.T, b *bench) {
		h := b.Take(b.Mutex("k"))
		first := only(t, b.ended(), "lock acquire")
		assert.Equal(t, trace.SpanKindInternal, first.SpanKind)
		assert.True(t, has(first.Attributes, attr("store", "redis"), attr("lock.kind", "mutex"), attr("outcome", "acquired"),
			attribute.Int64("leasewheel.lock.token", int64(h.Token())), attr("waited", "")))
		assert.Empty(t, first.Events)

		time.AfterFunc(3*time.Second, func() { _ = h.Unlock(ctx) })
		user, request := b.tracer.Start(ctx, "request")
		second, err := b.Mutex("k").Lock(user)
		require.NoError(t, err)
		request.End()
		spans := b.ended()
		waited := only(t, spans, "lock acquire")
		assert.Equal(t, request.SpanContext().SpanID(), waited.Parent.SpanID())
		assert.Equal(t, 3*time.Second, waited.EndTime.Sub(waited.StartTime))
		assert.True(t, has(waited.Attributes, attribute.Bool("leasewheel.waited", true)))
		require.Len(t, waited.Events, 1)
		assert.Equal(t, "queued", waited.Events[0].Name)
		released := only(t, spans, "lock release")
		assert.Equal(t, trace.SpanKindInternal, released.SpanKind)
		assert.True(t, has(released.Attributes, attr("end", "unlocked"), attr("lock.kind", "mutex"), attr("store", "redis")))
		assert.Equal(t, codes.Unset, released.Status.Code)

		_, err = b.Mutex("k").TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrNotAcquired)
		refused := only(t, b.ended(), "lock acquire")
		assert.True(t, has(refused.Attributes, attr("outcome", "held_by_other"), attribute.String("error.type", "")))
		assert.Equal(t, codes.Unset, refused.Status.Code, "that it is taken is no error")
		require.NoError(t, second.Unlock(ctx))
	})
}

func TestTheSpansOfAStoreThatFails(t *testing.T) {
	bubble(t, leaseotel.Options{}, lock.Options{}, func(t *testing.T, b *bench) {
		h := b.Take(b.Mutex("k"))
		b.ended()
		b.Fail(locktest.Acquire, metrictest.ErrIO)
		_, err := b.Mutex("other").TryLock(ctx)
		require.ErrorIs(t, err, lock.ErrUnavailable)
		acquire := only(t, b.ended(), "lock acquire")
		assert.True(t, has(acquire.Attributes, attr("outcome", "unavailable"), attribute.String("error.type", "unavailable")))
		assert.Equal(t, codes.Error, acquire.Status.Code)
		b.Fail(locktest.Release, metrictest.ErrIO)
		require.ErrorIs(t, h.Unlock(ctx), lock.ErrUnavailable)
		release := only(t, b.ended(), "lock release")
		assert.True(t, has(release.Attributes, attr("end", "unlocked"), attribute.String("error.type", "unavailable")))
		assert.Equal(t, codes.Error, release.Status.Code)
		b.Fail("", nil)
	})
}

// The calls of the store are children of the spans, and those of renewals are in no trace.
func TestTheStoreIsBelowTheSpans(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, leaseotel.Options{})
		var mu sync.Mutex // guards parents
		parents := map[string]trace.SpanContext{}
		store := driver.Wrap(b.Mem, func(ctx context.Context, c *driver.Call, next func(context.Context) error) error {
			mu.Lock()
			parents[c.Name] = trace.SpanContextFromContext(ctx)
			mu.Unlock()
			return next(ctx)
		})
		client, err := b.telemetry.NewClient(store, nil)
		require.NoError(t, err)
		defer client.Close(ctx)
		user, request := b.tracer.Start(ctx, "request")
		h, err := client.Mutex("k").Lock(user)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		require.NoError(t, h.Unlock(user))
		request.End()
		spans := b.ended()
		mu.Lock()
		defer mu.Unlock()
		assert.Equal(t, only(t, spans, "lock acquire").SpanContext.SpanID(), parents["wait"].SpanID())
		assert.Equal(t, only(t, spans, "lock release").SpanContext.SpanID(), parents["release"].SpanID())
		assert.Contains(t, parents, "renew")
		assert.False(t, parents["renew"].IsValid())
		assert.Len(t, spans, 3, "no span of a renewal or of holding")
	})
}

// A loss is an event on the span of the ctx that the user has passed to Lock, and on no other.
func TestALossIsAnEvent(t *testing.T) {
	bubble(t, leaseotel.Options{}, lock.Options{}, func(t *testing.T, b *bench) {
		user, request := b.tracer.Start(ctx, "request")
		h, err := b.Mutex("k").Lock(user)
		require.NoError(t, err)
		b.Fail(locktest.Renew, metrictest.ErrIO)
		<-h.Done()
		synctest.Wait()
		require.ErrorIs(t, h.Unlock(user), lock.ErrLost)
		request.End()
		b.Fail("", nil)
		spans := b.ended()
		events := only(t, spans, "request").Events
		require.Len(t, events, 1)
		assert.Equal(t, "lease lost", events[0].Name)
		assert.True(t, has(events[0].Attributes, attr("loss.reason", "failed"), attr("lock.kind", "mutex"), attr("store", "default")))
		set := attribute.NewSet(events[0].Attributes...)
		margin, _ := set.Value("leasewheel.loss.margin")
		assert.Greater(t, margin.AsFloat64(), 1.0)
		cause, _ := set.Value("leasewheel.loss.cause")
		assert.NotEmpty(t, cause.AsString())
		assert.Empty(t, only(t, spans, "lock acquire").Events)

		after, request := b.tracer.Start(ctx, "request")
		h, err = b.Mutex("k").Lock(after)
		require.NoError(t, err)
		request.End()
		b.Mem.Delete("k")
		<-h.Done()
		spans = b.ended()
		assert.Empty(t, only(t, spans, "request").Events, "its span has ended")
		late := only(t, spans, "lease lost")
		assert.Equal(t, request.SpanContext().SpanID(), late.Parent.SpanID())
		assert.True(t, has(late.Attributes, attr("loss.reason", "not_owned")))

		b.Take(b.Mutex("k"))
		b.Mem.Delete("k")
		time.Sleep(time.Minute)
		assert.Len(t, b.ended(), 1, "without a span of the user the counter alone has the loss")
	})
}

// A loss that Unlock notices is an event on the span of the ctx of Unlock.
func TestALossThatUnlockNotices(t *testing.T) {
	bubble(t, leaseotel.Options{}, lock.Options{}, func(t *testing.T, b *bench) {
		h := b.Take(b.Mutex("k"))
		b.Mem.Delete("k")
		user, request := b.tracer.Start(ctx, "request")
		require.ErrorIs(t, h.Unlock(user), lock.ErrLost)
		request.End()
		spans := b.ended()
		events := only(t, spans, "request").Events
		require.Len(t, events, 1)
		assert.True(t, has(events[0].Attributes, attr("loss.reason", "not_owned"), attr("loss.margin", "")))
		assert.True(t, has(only(t, spans, "lock release").Attributes, attr("end", "lost")))
	})
}

func TestTheEndsOfTheTermsAndOfTheClient(t *testing.T) {
	bubble(t, leaseotel.Options{}, lock.Options{Terms: lock.Terms{MaxHold: time.Minute}}, func(t *testing.T, b *bench) {
		user, request := b.tracer.Start(ctx, "request")
		h, err := b.Mutex("k").Lock(user)
		require.NoError(t, err)
		<-h.Done()
		synctest.Wait()
		request.End()
		events := only(t, b.ended(), "request").Events
		require.Len(t, events, 1)
		assert.True(t, has(events[0].Attributes, attr("loss.reason", "limit_reached")))

		b.Take(b.Mutex("other"))
		require.NoError(t, b.Client.Close(ctx))
		for _, s := range b.ended() {
			assert.Equal(t, "lock acquire", s.Name, "Close is no Unlock")
		}
	})
}

// The reader of a Downgrade has no span of its own.
func TestADowngrade(t *testing.T) {
	bubble(t, leaseotel.Options{}, lock.Options{}, func(t *testing.T, b *bench) {
		user, request := b.tracer.Start(ctx, "request")
		m := b.RWMutex("k")
		w, err := m.Lock(user)
		require.NoError(t, err)
		r, err := m.Downgrade(user, w)
		require.NoError(t, err)
		assert.InDelta(t, 1, b.Value("lock_acquire_duration_seconds", "kind=read"), 0)
		b.Mem.Delete("k")
		<-r.Done()
		synctest.Wait()
		request.End()
		spans := b.ended()
		only(t, spans, "lock acquire")
		require.Len(t, only(t, spans, "request").Events, 1)
	})
}

// Only batches that failed or were late have spans, in traces of their own.
func TestTheSpansOfBatches(t *testing.T) {
	bubble(t, leaseotel.Options{}, lock.Options{Renewal: renewal.Policy{Failures: -1}}, func(t *testing.T, b *bench) {
		user, request := b.tracer.Start(ctx, "request")
		h, err := b.Mutex("k").Lock(user)
		require.NoError(t, err)
		time.Sleep(time.Minute)
		b.Fail(locktest.Renew, metrictest.ErrIO)
		<-h.Done()
		request.End()
		var batches int
		for _, s := range b.ended() {
			if s.Name != "lease renewal batch" {
				continue
			}
			batches++
			assert.False(t, s.Parent.IsValid())
			assert.NotEqual(t, request.SpanContext().TraceID(), s.SpanContext.TraceID())
			assert.Equal(t, codes.Error, s.Status.Code)
			assert.True(t, has(s.Attributes, attribute.String("error.type", "unavailable"), attribute.Int("leasewheel.renewal.batch.size", 1)))
		}
		failed := b.Value("renewal_batch_duration_seconds", "error_type=unavailable")
		assert.Positive(t, failed)
		assert.InDelta(t, failed, float64(batches), 0)
	})
}

func TestLateBatches(t *testing.T) {
	for late, want := range map[time.Duration]bool{0: true, 30 * time.Second: false, -1: false} {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, leaseotel.Options{LateRenewal: late})
			b.telemetry.Instrument(nil).Hooks.BatchDone(renewal.BatchInfo{Size: 7, Renewed: 7, Late: 2 * time.Second, Took: time.Second})
			spans := b.ended()
			if !want {
				assert.Empty(t, spans)
				return
			}
			s := only(t, spans, "lease renewal batch")
			assert.Equal(t, time.Second, s.EndTime.Sub(s.StartTime))
			assert.Equal(t, codes.Unset, s.Status.Code)
			assert.True(t, has(s.Attributes, attribute.Float64("leasewheel.renewal.lateness", 2)))
		})
	}
}
