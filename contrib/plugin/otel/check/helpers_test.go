package check

import (
	"context"
	"strings"
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

	"github.com/leasewheel/leasewheel/contrib/plugin/internal/metrictest"
	leaseotel "github.com/leasewheel/leasewheel/contrib/plugin/otel"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var ctx = context.Background()

// plugin is what the suite has of this package, with all metrics and spans.
type plugin struct {
	telemetry *leaseotel.Telemetry
	reader    *metric.ManualReader
	spans     *tracetest.InMemoryExporter
	tracer    trace.Tracer // of the user
}

func newPlugin(t *testing.T, o leaseotel.Options) *plugin {
	t.Helper()
	p := &plugin{reader: metric.NewManualReader(), spans: tracetest.NewInMemoryExporter()}
	tracing := sdktrace.NewTracerProvider(sdktrace.WithSyncer(p.spans))
	o.MeterProvider, o.TracerProvider = metric.NewMeterProvider(metric.WithReader(p.reader)), tracing
	p.tracer = tracing.Tracer("user")
	var err error
	p.telemetry, err = leaseotel.New(&o)
	require.NoError(t, err)
	return p
}

func (p *plugin) NewClient(store driver.Store, o *lock.Options) (*lock.Client, error) {
	return p.telemetry.NewClient(store, o)
}
func (p *plugin) Watch(c *lock.Client)            { p.telemetry.Watch(c) }
func (p *plugin) Hooked(ctx context.Context) bool { return trace.SpanContextFromContext(ctx).IsValid() }
func (p *plugin) Close() error                    { return p.telemetry.Close() }

// These turn the names of the suite into those of the conventions.
var (
	metricNames = strings.NewReplacer("lock_waiters", "lock.waiter", "leases_held", "lease.held", "renewals_", "renewal.", "releases_", "release.",
		"timers_", "timer.", "_total", "", "_seconds", "", "_", ".")
	labelNames = map[string]string{"kind": "leasewheel.lock.kind", "reason": "leasewheel.loss.reason", "error_type": "error.type"}
)

func (p *plugin) Point(t testing.TB, name string, labels ...string) (metrictest.Point, bool) {
	t.Helper()
	var wanted []attribute.KeyValue
	for _, l := range labels {
		key, value, _ := strings.Cut(l, "=")
		switch {
		case labelNames[key] != "":
			key = labelNames[key]
		case key == "name":
			key = "leasewheel.lock.name"
			if strings.HasPrefix(name, "election") {
				key = "leasewheel.election.name"
			}
		default:
			key = "leasewheel." + key
		}
		wanted = append(wanted, attribute.String(key, value))
	}
	for _, found := range p.points(t)["leasewheel."+metricNames.Replace(name)] {
		if has(found.attributes.ToSlice(), wanted...) {
			return found.Point, true
		}
	}
	return metrictest.Point{}, false
}

// bench is a client in a bubble, whose metrics and spans are kept.
type bench struct {
	*metrictest.Bench
	*plugin
}

// bubble runs a test with a client that has the given options.
func bubble(t *testing.T, o leaseotel.Options, of lock.Options, test func(t *testing.T, b *bench)) {
	t.Helper()
	var p *plugin
	open := func(t *testing.T) metrictest.Plugin { p = newPlugin(t, o); return p }
	metrictest.Bubble(t, open, of, func(t *testing.T, b *metrictest.Bench) { test(t, &bench{b, p}) })
}

// newBench returns a bench without a client.
func newBench(t *testing.T, o leaseotel.Options) *bench {
	t.Helper()
	p := newPlugin(t, o)
	return &bench{metrictest.NewBench(t, p), p}
}

// point is a data point.
type point struct {
	metrictest.Point
	attributes attribute.Set
	unit       string
}

// points returns all data points, by the name of their instrument.
func (p *plugin) points(t testing.TB) map[string][]point {
	t.Helper()
	synctest.Wait()
	var data metricdata.ResourceMetrics
	require.NoError(t, p.reader.Collect(ctx, &data))
	all := map[string][]point{}
	for _, s := range data.ScopeMetrics {
		assert.Equal(t, "leasewheel", s.Scope.Name)
		for _, m := range s.Metrics {
			for _, found := range pointsOf(m.Data) {
				found.unit = m.Unit
				all[m.Name] = append(all[m.Name], found)
			}
		}
	}
	return all
}

func pointsOf(data metricdata.Aggregation) (all []point) {
	switch data := data.(type) {
	case metricdata.Sum[int64]:
		for _, p := range data.DataPoints {
			all = append(all, point{metrictest.Point{Value: float64(p.Value)}, p.Attributes, ""})
		}
	case metricdata.Gauge[float64]:
		for _, p := range data.DataPoints {
			all = append(all, point{metrictest.Point{Value: p.Value}, p.Attributes, ""})
		}
	case metricdata.Histogram[int64]:
		for _, p := range data.DataPoints {
			all = append(all, point{metrictest.Point{Value: float64(p.Count), Sum: float64(p.Sum)}, p.Attributes, ""})
		}
	case metricdata.Histogram[float64]:
		for _, p := range data.DataPoints {
			all = append(all, point{metrictest.Point{Value: float64(p.Count), Sum: p.Sum}, p.Attributes, ""})
		}
	}
	return all
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
func (p *plugin) ended() tracetest.SpanStubs {
	synctest.Wait()
	spans := p.spans.GetSpans()
	p.spans.Reset()
	return spans
}
