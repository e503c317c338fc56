// The options.

package leaseotel

import (
	"fmt"
	"time"
	"unicode/utf8"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"
)

// Options configure Telemetry. A nil *Options and zero fields mean the defaults.
type Options struct {
	// MeterProvider and TracerProvider are the global ones by default. Pass one of
	// go.opentelemetry.io/otel/metric/noop or go.opentelemetry.io/otel/trace/noop to have no metrics, or no spans.
	MeterProvider  metric.MeterProvider
	TracerProvider trace.TracerProvider

	// Store is the attribute leasewheel.store, such as "redis" or the name of a quorum. Two
	// clients of a process need different ones. The default is "default".
	Store string

	// Namer returns the name of a lock for its key, such as "orders" for "orders:4711". It must
	// return few different names, because each has its own time series for as long as the
	// process runs. It is called concurrently, several times for each lock. A Multi has all its
	// keys in one key, separated by commas. Bytes that are not UTF-8 are replaced. Without a Namer
	// there is no such attribute.
	Namer func(key string) string

	// LateRenewal is how late a batch of renewals must be to have a span. The default is 1 s. A
	// negative value means that only failed batches have spans.
	LateRenewal time.Duration
}

const (
	scope              = "leasewheel"
	defaultStore       = "default"
	defaultLateRenewal = time.Second
)

// withDefaults returns a copy of the options with the defaults. The error names a bad field.
func (o *Options) withDefaults() (Options, error) {
	if o == nil {
		o = new(Options)
	}
	opts := *o
	if opts.MeterProvider == nil {
		opts.MeterProvider = otel.GetMeterProvider()
	}
	if opts.TracerProvider == nil {
		opts.TracerProvider = otel.GetTracerProvider()
	}
	if opts.Store == "" {
		opts.Store = defaultStore
	}
	if opts.LateRenewal == 0 {
		opts.LateRenewal = defaultLateRenewal
	}
	if !utf8.ValidString(opts.Store) {
		return opts, fmt.Errorf("leaseotel: Options.Store is not valid UTF-8: %q", opts.Store)
	}
	return opts, nil
}
