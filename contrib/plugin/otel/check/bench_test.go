package check

import (
	"testing"

	"github.com/stretchr/testify/require"
	nometrics "go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/sdk/metric"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	nospans "go.opentelemetry.io/otel/trace/noop"

	leaseotel "github.com/leasewheel/leasewheel/contrib/plugin/otel"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

// BenchmarkPair is an uncontended Lock and its Unlock in memory, with and without telemetry.
func BenchmarkPair(b *testing.B) {
	type open = func(*testing.B, driver.Store) (*lock.Client, error)
	with := func(o leaseotel.Options) open {
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
	for _, row := range []struct {
		name string
		open open
	}{
		{"without", func(_ *testing.B, store driver.Store) (*lock.Client, error) { return lock.New(store, nil) }},
		{"noop", with(leaseotel.Options{MeterProvider: nometrics.NewMeterProvider(), TracerProvider: nospans.NewTracerProvider()})},
		{"metrics", with(leaseotel.Options{MeterProvider: meters, TracerProvider: nospans.NewTracerProvider()})},
		{"unsampled", with(leaseotel.Options{MeterProvider: meters, TracerProvider: unsampled})},
		{"sampled", with(leaseotel.Options{MeterProvider: meters, TracerProvider: sampled})},
	} {
		b.Run(row.name, func(b *testing.B) {
			client, err := row.open(b, memstore.New())
			require.NoError(b, err)
			defer client.Close(ctx)
			m := client.Mutex("orders:1")
			b.ReportAllocs()
			for b.Loop() {
				h, err := m.Lock(ctx)
				if err != nil || h.Unlock(ctx) != nil {
					b.Fatal("not locked")
				}
			}
		})
	}
}
