package check

import (
	"testing"

	"github.com/stretchr/testify/require"
	nometrics "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	nospans "go.opentelemetry.io/otel/trace/noop"

	"github.com/leasewheel/leasewheel/contrib/plugin/internal/metrictest"
	leaseotel "github.com/leasewheel/leasewheel/contrib/plugin/otel"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// BenchmarkPair is an uncontended Lock and its Unlock in memory, with and without telemetry.
func BenchmarkPair(b *testing.B) {
	with := func(o leaseotel.Options) metrictest.Open {
		return func(b *testing.B, store driver.Store) (*lock.Client, error) {
			t, err := leaseotel.New(&o)
			require.NoError(b, err)
			b.Cleanup(func() { _ = t.Close() })
			return t.NewClient(store, nil)
		}
	}
	meters := metric.NewMeterProvider(metric.WithReader(metric.NewManualReader()))
	unsampled := sdktrace.NewTracerProvider(sdktrace.WithSampler(sdktrace.NeverSample()))
	sampled := sdktrace.NewTracerProvider(sdktrace.WithSyncer(tracetest.NewNoopExporter()))
	metrictest.Pairs(b, map[string]metrictest.Open{
		"noop":      with(leaseotel.Options{MeterProvider: nometrics.NewMeterProvider(), TracerProvider: nospans.NewTracerProvider()}),
		"metrics":   with(leaseotel.Options{MeterProvider: meters, TracerProvider: nospans.NewTracerProvider()}),
		"unsampled": with(leaseotel.Options{MeterProvider: meters, TracerProvider: unsampled}),
		"sampled":   with(leaseotel.Options{MeterProvider: meters, TracerProvider: sampled}),
	})
}
