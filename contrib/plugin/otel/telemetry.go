// Telemetry, and clients that report to it.

package leaseotel

import (
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
	"go.opentelemetry.io/otel/trace"

	"github.com/leasewheel/leasewheel/contrib/plugin/internal/observe"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// Telemetry has the metrics and spans of one client. All methods are safe for concurrent use.
type Telemetry struct {
	store       attribute.KeyValue
	lateRenewal time.Duration
	tracer      trace.Tracer
	instruments instruments
	callback    metric.Registration
	client      atomic.Pointer[lock.Client]    // nil before Watch
	engine      atomic.Pointer[observe.Engine] // nil: there is none, or it has no Stats
	series      *observe.Series[series]
}

// New returns the telemetry of one client. The error names the bad field of Options, or is that
// of an instrument.
func New(o *Options) (*Telemetry, error) {
	opts, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	t := &Telemetry{
		store:       attribute.String("leasewheel.store", opts.Store),
		lateRenewal: opts.LateRenewal,
		tracer:      opts.TracerProvider.Tracer(scope),
	}
	t.series = observe.NewSeries(opts.Namer, t.newSeries)
	meter := opts.MeterProvider.Meter(scope)
	if t.instruments, err = newInstruments(meter); err != nil {
		return nil, err
	}
	if t.callback, err = t.register(meter); err != nil {
		return nil, err
	}
	return t, nil
}

// NewClient is lock.New with this telemetry: it calls Instrument and Watch. The options may have
// hooks of their own. The client must be closed, as any other.
func (t *Telemetry) NewClient(store driver.Store, o *lock.Options) (*lock.Client, error) {
	client, err := lock.New(store, t.Instrument(o))
	if err != nil {
		return nil, err
	}
	t.Watch(client)
	return client, nil
}

// Watch makes each collection read the Stats of a client, in place of one that was watched
// before. It is for a client that was made with the result of Instrument. The metrics of a closed
// client stay until Close.
func (t *Telemetry) Watch(c *lock.Client) { t.client.Store(c) }

// Close ends the reading of Stats. It does not close the client, whose hooks go on. Close is
// idempotent.
func (t *Telemetry) Close() error { return t.callback.Unregister() }
