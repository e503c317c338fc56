package check

import (
	"context"
	"fmt"

	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	leaseotel "github.com/leasewheel/leasewheel/contrib/plugin/otel"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

// A client whose locks have metrics and spans. A program has exporters in place of the reader
// and the exporter in memory.
func Example() {
	ctx := context.Background()
	reader, exporter := metric.NewManualReader(), tracetest.NewInMemoryExporter()
	telemetry, err := leaseotel.New(&leaseotel.Options{
		MeterProvider:  metric.NewMeterProvider(metric.WithReader(reader)),
		TracerProvider: sdktrace.NewTracerProvider(sdktrace.WithSyncer(exporter)),
		Store:          "memory",
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer telemetry.Close()
	client, err := telemetry.NewClient(memstore.New(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(ctx)

	held, err := client.Mutex("orders").Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := held.Unlock(ctx); err != nil {
		fmt.Println(err)
		return
	}
	for _, span := range exporter.GetSpans() {
		fmt.Println("span:", span.Name)
	}
	var data metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &data); err != nil {
		fmt.Println(err)
		return
	}
	for _, m := range data.ScopeMetrics[0].Metrics {
		if h, ok := m.Data.(metricdata.Histogram[float64]); ok {
			fmt.Println("histogram:", m.Name, h.DataPoints[0].Count)
		}
	}
	// Output:
	// span: lock acquire
	// span: lock release
	// histogram: leasewheel.lock.acquire.duration 1
	// histogram: leasewheel.lock.hold.duration 1
}
