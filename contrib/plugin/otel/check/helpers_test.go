package check

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"
	"go.uber.org/goleak"

	leaseotel "github.com/leasewheel/leasewheel/contrib/plugin/otel"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ctx = context.Background()

var errIO = errors.New("connection reset")

// bench is a client in a bubble, whose metrics and spans are kept.
type bench struct {
	*lock.Client
	t         *testing.T
	mem       *memstore.Store
	fault     atomic.Value // a func: returns the error of an operation
	telemetry *leaseotel.Telemetry
	reader    *metric.ManualReader
	spans     *tracetest.InMemoryExporter
	tracer    trace.Tracer // of the user
}

// bubble runs a test with a client that has the given options.
func bubble(t *testing.T, o leaseotel.Options, of lock.Options, test func(t *testing.T, b *bench)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, o)
		store := (&locktest.Faulty{Before: func(ctx context.Context, op locktest.Op) error {
			return b.fault.Load().(func(context.Context, locktest.Op) error)(ctx, op)
		}}).Over(b.mem)
		var err error
		b.Client, err = b.telemetry.NewClient(store, &of)
		require.NoError(t, err)
		defer func() { assert.NoError(t, b.telemetry.Close()) }()
		defer b.Close(ctx)
		test(t, b)
	})
}

// newBench returns a bench without a client.
func newBench(t *testing.T, o leaseotel.Options) *bench {
	t.Helper()
	b := &bench{t: t, mem: memstore.New(), reader: metric.NewManualReader(), spans: tracetest.NewInMemoryExporter()}
	tracing := sdktrace.NewTracerProvider(sdktrace.WithSyncer(b.spans))
	o.MeterProvider, o.TracerProvider = metric.NewMeterProvider(metric.WithReader(b.reader)), tracing
	b.tracer = tracing.Tracer("user")
	b.fail("", nil)
	var err error
	b.telemetry, err = leaseotel.New(&o)
	require.NoError(t, err)
	return b
}

// fail makes all further calls of one operation fail. A nil err makes them wait for the end
// of their ctx.
func (b *bench) fail(which locktest.Op, err error) {
	b.fault.Store(func(ctx context.Context, op locktest.Op) error {
		switch {
		case op != which:
			return nil
		case err == nil:
			<-ctx.Done()
			return context.Cause(ctx)
		}
		return err
	})
}

func (b *bench) lock(l lock.Locker) *lock.Held {
	b.t.Helper()
	h, err := l.Lock(ctx)
	require.NoError(b.t, err)
	return h
}

// point is a data point: the value of a counter or gauge, or the count and sum of a histogram.
type point struct {
	value, sum float64
	attributes attribute.Set
	unit       string
}

// points returns all data points, by the name of their instrument.
func (b *bench) points() map[string][]point {
	b.t.Helper()
	synctest.Wait()
	var data metricdata.ResourceMetrics
	require.NoError(b.t, b.reader.Collect(ctx, &data))
	all := map[string][]point{}
	for _, s := range data.ScopeMetrics {
		assert.Equal(b.t, "leasewheel", s.Scope.Name)
		for _, m := range s.Metrics {
			for _, p := range pointsOf(m.Data) {
				p.unit = m.Unit
				all[m.Name] = append(all[m.Name], p)
			}
		}
	}
	return all
}

func pointsOf(data metricdata.Aggregation) (all []point) {
	switch data := data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			all = append(all, point{value: float64(p.Value), attributes: p.Attributes})
		}
	case metricdata.Gauge[float64]:
		for _, p := range data.DataPoints {
			all = append(all, point{value: p.Value, attributes: p.Attributes})
		}
	case metricdata.Histogram[int64]:
		for _, p := range data.DataPoints {
			all = append(all, point{value: float64(p.Count), sum: float64(p.Sum), attributes: p.Attributes})
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			all = append(all, point{value: float64(p.Count), sum: p.Sum, attributes: p.Attributes})
		}
	}
	return all
}

// point returns the first data point with the given attributes.
func (b *bench) point(name string, attributes ...attribute.KeyValue) (point, bool) {
	b.t.Helper()
	for _, p := range b.points()["leasewheel."+name] {
		if has(p.attributes.ToSlice(), attributes...) {
			return p, true
		}
	}
	return point{}, false
}

// value returns the value of a data point, -1 if there is none.
func (b *bench) value(name string, attributes ...attribute.KeyValue) float64 {
	b.t.Helper()
	if p, ok := b.point(name, attributes...); ok {
		return p.value
	}
	return -1
}

// has reports whether all has each of the wanted attributes. An empty string is wanted if the
// attribute must not exist.
func has(all []attribute.KeyValue, wanted ...attribute.KeyValue) bool {
	set := attribute.NewSet(all...)
	for _, w := range wanted {
		got, ok := set.Value(w.Key)
		if absent := w.Value == attribute.StringValue(""); absent == ok || !absent && got != w.Value {
			return false
		}
	}
	return true
}

// attr is an attribute with the prefix of the package.
func attr(key, value string) attribute.KeyValue {
	return attribute.String("leasewheel."+key, value)
}

// ended returns the spans that have ended since the last call.
func (b *bench) ended() tracetest.SpanStubs {
	b.t.Helper()
	synctest.Wait()
	spans := b.spans.GetSpans()
	b.spans.Reset()
	return spans
}
