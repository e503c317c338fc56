// Command spans prints the spans of locks, and at its end the metrics. It needs neither a Redis
// server nor a collector:
//
//	cd contrib/plugin/otel/check
//	go run ./examples/spans          # -redis redis://localhost:6379 for locks on a server
//
// A worker holds a lock that another one waits for, and one lock is lost. A program for
// production has the exporters of OpenTelemetry, such as otlptracegrpc, in place of the printer.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	leaseotel "github.com/leasewheel/leasewheel/contrib/plugin/otel"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/lock/redisstore"
)

func main() {
	if err := run(context.Background(), os.Args[1:], os.Stdout); err != nil {
		log.Fatal(err)
	}
}

func run(ctx context.Context, args []string, out io.Writer) error {
	flags := flag.NewFlagSet("spans", flag.ContinueOnError)
	server := flags.String("redis", "", "URL of a Redis server; without it the locks are in memory")
	if err := flags.Parse(args); err != nil {
		return err
	}
	store, name, err := open(*server)
	if err != nil {
		return err
	}
	reader := metric.NewManualReader()
	tracing := sdktrace.NewTracerProvider(sdktrace.WithSyncer(&printer{out: out}))
	telemetry, err := leaseotel.New(&leaseotel.Options{
		MeterProvider:  metric.NewMeterProvider(metric.WithReader(reader)),
		TracerProvider: tracing,
		Store:          name,
		Namer:          func(key string) string { name, _, _ := strings.Cut(key, ":"); return name },
	})
	if err != nil {
		return err
	}
	told := make(chan struct{})
	client, err := telemetry.NewClient(store, &lock.Options{
		Terms: lock.Terms{TTL: 3 * time.Second},
		Hooks: &lock.Hooks{Lost: func(context.Context, lock.HookInfo) { close(told) }}, // called after that of the telemetry
	})
	if err != nil {
		return err
	}
	err = work(ctx, client, tracing.Tracer("spans"), told)
	return errors.Join(err, printMetrics(ctx, reader, out), client.Close(ctx), telemetry.Close(), tracing.Shutdown(ctx))
}

// open returns a store and its name.
func open(server string) (driver.Store, string, error) {
	if server == "" {
		return memstore.New(), "memory", nil
	}
	o, err := redis.ParseURL(server)
	if err != nil {
		return nil, "", err
	}
	store, err := redisstore.New(redis.NewClient(o), nil)
	return store, "redis", err
}

// work lets two workers work under one lock, and then takes a lock away from its holder. told is
// closed when the loss is in the trace.
func work(ctx context.Context, client *lock.Client, tracer trace.Tracer, told <-chan struct{}) error {
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() {
			ctx, span := tracer.Start(ctx, fmt.Sprint("worker ", i))
			defer span.End()
			errs[i] = lock.Do(ctx, client.Mutex("orders:1"), func(context.Context, *lock.Held) error {
				time.Sleep(100 * time.Millisecond)
				return nil
			})
		})
	}
	wg.Wait()

	ctx, span := tracer.Start(ctx, "loser")
	defer span.End()
	held, err := client.Mutex("reports:1").Lock(ctx)
	if err != nil {
		return err
	}
	if err := client.ForceRelease(ctx, "reports:1"); err != nil {
		return err
	}
	<-held.Done() // ended by the next renewal, in a second
	<-told
	if err := held.Unlock(ctx); !errors.Is(err, lock.ErrLost) {
		return fmt.Errorf("not lost: %w", err)
	}
	return errors.Join(errs...)
}

// printer prints spans.
type printer struct {
	mu  sync.Mutex // guards out
	out io.Writer
}

// ExportSpans implements sdktrace.SpanExporter.
func (p *printer) ExportSpans(_ context.Context, spans []sdktrace.ReadOnlySpan) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range spans {
		took := s.EndTime().Sub(s.StartTime()).Round(time.Millisecond)
		fmt.Fprintf(p.out, "%s %-12s %6v  parent %s", s.SpanContext().SpanID(), s.Name(), took, s.Parent().SpanID())
		for _, a := range s.Attributes() {
			fmt.Fprintf(p.out, " %s=%s", strings.TrimPrefix(string(a.Key), "leasewheel."), a.Value.String())
		}
		fmt.Fprintln(p.out)
		for _, e := range s.Events() {
			fmt.Fprintf(p.out, "    event %s %v\n", e.Name, e.Attributes)
		}
	}
	return nil
}

// Shutdown implements sdktrace.SpanExporter.
func (p *printer) Shutdown(context.Context) error { return nil }

// printMetrics prints the counts of all histograms and counters.
func printMetrics(ctx context.Context, reader *metric.ManualReader, out io.Writer) error {
	var data metricdata.ResourceMetrics
	if err := reader.Collect(ctx, &data); err != nil {
		return err
	}
	for _, scope := range data.ScopeMetrics {
		for _, m := range scope.Metrics {
			switch of := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range of.DataPoints {
					fmt.Fprintln(out, m.Name, p.Attributes.Encoded(attribute.DefaultEncoder()), p.Value)
				}
			case metricdata.Histogram[float64]:
				for _, p := range of.DataPoints {
					fmt.Fprintln(out, m.Name, p.Attributes.Encoded(attribute.DefaultEncoder()), p.Count)
				}
			}
		}
	}
	return nil
}
