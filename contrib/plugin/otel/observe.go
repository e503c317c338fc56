// The figures that are read at each collection.

package leaseotel

import (
	"context"
	"maps"
	"slices"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/leasewheel/leasewheel/contrib/plugin/internal/observe"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/schedule"
)

// register makes each collection read Stats, which does no IO.
func (t *Telemetry) register(meter metric.Meter) (metric.Registration, error) {
	made := make(map[string]metric.Observable) // by name
	for _, f := range slices.Concat(observe.OfClient(lock.Stats{}), observe.OfEngine(schedule.Stats{})) {
		if made[f.OTel] != nil { // it has several outcomes
			continue
		}
		name, unit, help := "leasewheel."+f.OTel, metric.WithUnit(f.Unit), metric.WithDescription(f.Help)
		var err error
		switch f.Kind {
		case observe.Level:
			made[f.OTel], err = meter.Int64ObservableUpDownCounter(name, unit, help)
		case observe.Counter:
			made[f.OTel], err = meter.Int64ObservableCounter(name, unit, help)
		case observe.Seconds:
			made[f.OTel], err = meter.Float64ObservableGauge(name, unit, help)
		}
		if err != nil {
			return nil, err
		}
	}
	report := func(o metric.Observer, figures []observe.Figure, more ...attribute.KeyValue) {
		for _, f := range figures {
			of := more
			if f.Outcome != "" {
				of = []attribute.KeyValue{keyOutcome.String(f.Outcome)}
			}
			switch instrument := made[f.OTel].(type) {
			case metric.Int64Observable:
				o.ObserveInt64(instrument, int64(f.Value), t.with(of...))
			case metric.Float64Observable:
				o.ObserveFloat64(instrument, f.Value, t.with(of...))
			}
		}
	}
	return meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		if c := t.client.Load(); c != nil {
			report(o, observe.OfClient(c.Stats()))
		}
		if e := t.engine.Load(); e != nil {
			report(o, observe.OfEngine(e.Stats()), attribute.String("leasewheel.engine", e.Label))
		}
		return nil
	}, slices.Collect(maps.Values(made))...)
}
