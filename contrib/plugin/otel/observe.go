// The figures that are read at each collection.

package leaseotel

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"
)

// observe returns the callback that reads Stats. It does no IO.
func (t *Telemetry) observe(i observed) metric.Callback {
	attributes := func(more ...attribute.KeyValue) metric.MeasurementOption {
		return metric.WithAttributeSet(attribute.NewSet(append(more, t.store)...))
	}
	store := attributes()
	outcome := func(name string) metric.MeasurementOption {
		return attributes(attribute.String("leasewheel.outcome", name))
	}
	renewed, notOwned, unknown := outcome("renewed"), outcome("not_owned"), outcome("unknown")
	enough, tooFew, unanswered := outcome("enough"), outcome("too_few"), outcome("unanswered")
	return func(_ context.Context, o metric.Observer) error {
		if c := t.client.Load(); c != nil {
			s := c.Stats()
			r := s.Renewal
			o.ObserveInt64(i.waiter, int64(s.Waiting), store)
			o.ObserveInt64(i.held, int64(r.Held), store)
			o.ObserveInt64(i.due, int64(r.Due), store)
			o.ObserveInt64(i.inFlight, int64(r.InFlight), store)
			o.ObserveInt64(i.pending, int64(s.Releasing), store)
			o.ObserveInt64(i.leases, int64(r.Renewed), renewed)
			o.ObserveInt64(i.leases, int64(r.NotOwned), notOwned)
			o.ObserveInt64(i.leases, int64(r.Unknown), unknown)
			o.ObserveInt64(i.replicas, int64(s.Replicas.Enough), enough)
			o.ObserveInt64(i.replicas, int64(s.Replicas.TooFew), tooFew)
			o.ObserveInt64(i.replicas, int64(s.Replicas.Unanswered), unanswered)
			o.ObserveInt64(i.drops, int64(r.DroppedHooks), store)
			o.ObserveInt64(i.logDrops, int64(r.DroppedLogs), store)
			o.ObserveFloat64(i.age, r.Oldest.Seconds(), store)
		}
		if e := t.engine.Load(); e != nil {
			s, engine := e.Stats(), attributes(attribute.String("leasewheel.engine", e.Label))
			o.ObserveInt64(i.timers, int64(s.Pending), engine)
			o.ObserveInt64(i.fired, int64(s.Fired), engine)
			o.ObserveInt64(i.panics, int64(s.Panics), engine)
			o.ObserveInt64(i.timerLogDrops, int64(s.DroppedLogs), engine)
			o.ObserveInt64(i.wakeups, int64(s.Wakeups), engine)
			o.ObserveFloat64(i.lateMax, s.LateMax.Seconds(), engine)
			o.ObserveFloat64(i.taskMax, s.LongestTask.Seconds(), engine)
		}
		return nil
	}
}
