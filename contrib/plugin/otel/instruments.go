// The instruments, with their names and units.

package leaseotel

import (
	"errors"

	"go.opentelemetry.io/otel/metric"

	"github.com/leasewheel/leasewheel/contrib/plugin/internal/observe"
)

// instruments are those that hooks use.
type instruments struct {
	acquire, hold, margin, batchTook, lateness metric.Float64Histogram
	batchSize                                  metric.Int64Histogram
	losses, transitions                        metric.Int64Counter
	leading                                    metric.Int64UpDownCounter
}

func newInstruments(meter metric.Meter) (all instruments, err error) {
	var errs []error
	seconds := func(to *metric.Float64Histogram, name, help string, bounds []float64) {
		*to, err = meter.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(help), metric.WithExplicitBucketBoundaries(bounds...))
		errs = append(errs, err)
	}
	counter := func(to *metric.Int64Counter, name, unit, help string) {
		*to, err = meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(help))
		errs = append(errs, err)
	}
	seconds(&all.acquire, "leasewheel.lock.acquire.duration", "Duration of calls of Lock and TryLock.", observe.AcquireBuckets)
	seconds(&all.hold, "leasewheel.lock.hold.duration", "How long locks were held.", observe.HoldBuckets)
	seconds(&all.margin, "leasewheel.lease.loss.margin",
		"Time from the notice of a loss to the earliest end of the lease; 0 if the notice came too late.", observe.MarginBuckets)
	seconds(&all.batchTook, "leasewheel.renewal.batch.duration", "Duration of calls that renew a batch of leases.", observe.BatchBuckets)
	seconds(&all.lateness, "leasewheel.renewal.lateness", "How late batches of renewals were sent.", observe.LatenessBuckets)
	counter(&all.losses, "leasewheel.lease.losses", "{lease}",
		"Locks whose lease ended before they were unlocked. The reason limit_reached is no failure.")
	counter(&all.transitions, "leasewheel.election.transitions", "{transition}", "Terms as a leader that this client has begun.")
	all.batchSize, err = meter.Int64Histogram("leasewheel.renewal.batch.size", metric.WithUnit("{lease}"),
		metric.WithDescription("Leases in a batch of renewals."), metric.WithExplicitBucketBoundaries(observe.SizeBuckets...))
	errs = append(errs, err)
	all.leading, err = meter.Int64UpDownCounter("leasewheel.election.leading", metric.WithUnit("{election}"),
		metric.WithDescription("Elections that this client leads."))
	return all, errors.Join(append(errs, err)...)
}
