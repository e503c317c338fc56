// The instruments, with their names and units.

package leaseotel

import (
	"errors"

	"go.opentelemetry.io/otel/metric"
)

// instruments are those that hooks use.
type instruments struct {
	acquire, hold, margin, batchTook, lateness metric.Float64Histogram
	batchSize                                  metric.Int64Histogram
	losses, transitions                        metric.Int64Counter
	leading                                    metric.Int64UpDownCounter
}

// maker makes instruments and collects their errors.
type maker struct {
	metric.Meter
	errs []error
}

func made[I any](m *maker, i I, err error) I {
	if err != nil {
		m.errs = append(m.errs, err)
	}
	return i
}

func newInstruments(meter metric.Meter) (instruments, error) {
	m := &maker{Meter: meter}
	seconds := func(name, help string, bounds ...float64) metric.Float64Histogram {
		h, err := m.Float64Histogram(name, metric.WithUnit("s"), metric.WithDescription(help), metric.WithExplicitBucketBoundaries(bounds...))
		return made(m, h, err)
	}
	counter := func(name, unit, help string) metric.Int64Counter {
		c, err := m.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(help))
		return made(m, c, err)
	}
	all := instruments{
		acquire: seconds("leasewheel.lock.acquire.duration", "Duration of calls of Lock and TryLock.",
			0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60),
		hold: seconds("leasewheel.lock.hold.duration", "How long locks were held.",
			0.01, 0.1, 1, 10, 60, 600, 3600),
		margin: seconds("leasewheel.lease.loss.margin", "Time from the notice of a loss to the earliest end of the lease; 0 if the notice came too late.",
			0, 0.01, 0.1, 1, 5, 10, 30, 60),
		batchTook: seconds("leasewheel.renewal.batch.duration", "Duration of calls that renew a batch of leases.",
			0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10),
		lateness: seconds("leasewheel.renewal.lateness", "How late batches of renewals were sent.",
			0.001, 0.01, 0.1, 0.5, 1, 5, 10, 60),
		losses: counter("leasewheel.lease.losses", "{lease}", "Locks whose lease ended before they were unlocked. The reason limit_reached is no failure."),
		transitions: counter("leasewheel.election.transitions", "{transition}",
			"Terms as a leader that this client has begun."),
	}
	size, err := m.Int64Histogram("leasewheel.renewal.batch.size", metric.WithUnit("{lease}"),
		metric.WithDescription("Leases in a batch of renewals."), metric.WithExplicitBucketBoundaries(1, 8, 64, 256, 1024, 4096))
	all.batchSize = made(m, size, err)
	leading, err := m.Int64UpDownCounter("leasewheel.election.leading", metric.WithUnit("{election}"),
		metric.WithDescription("Elections that this client leads."))
	all.leading = made(m, leading, err)
	return all, errors.Join(m.errs...)
}

// observed are the instruments that are read from Stats.
type observed struct {
	waiter, held, due, inFlight, pending, timers metric.Int64ObservableUpDownCounter
	leases, replicas                             metric.Int64ObservableCounter
	drops, logDrops, fired, panics, wakeups      metric.Int64ObservableCounter
	timerLogDrops                                metric.Int64ObservableCounter
	age, lateMax, taskMax                        metric.Float64ObservableGauge

	all []metric.Observable
}

func newObserved(meter metric.Meter) (observed, error) {
	m := &maker{Meter: meter}
	var all []metric.Observable
	number := func(name, unit, help string) metric.Int64ObservableUpDownCounter {
		i, err := m.Int64ObservableUpDownCounter("leasewheel."+name, metric.WithUnit(unit), metric.WithDescription(help))
		all = append(all, i)
		return made(m, i, err)
	}
	counter := func(name, unit, help string) metric.Int64ObservableCounter {
		i, err := m.Int64ObservableCounter("leasewheel."+name, metric.WithUnit(unit), metric.WithDescription(help))
		all = append(all, i)
		return made(m, i, err)
	}
	seconds := func(name, help string) metric.Float64ObservableGauge {
		i, err := m.Float64ObservableGauge("leasewheel."+name, metric.WithUnit("s"), metric.WithDescription(help))
		all = append(all, i)
		return made(m, i, err)
	}
	o := observed{
		waiter:        number("lock.waiter", "{waiter}", "Calls of Lock that do not have their lock yet."),
		held:          number("lease.held", "{lease}", "Leases that are held and renewed."),
		due:           number("renewal.due", "{lease}", "Leases whose renewal is due and waits for a free call of the store."),
		inFlight:      number("renewal.inflight", "{call}", "Calls of the store under way that renew leases."),
		pending:       number("release.pending", "{lease}", "Leases that are being released in the background."),
		timers:        number("timer.pending", "{timer}", "Timers that are pending or running."),
		leases:        counter("renewal.leases", "{lease}", "Renewals of leases by their outcome."),
		replicas:      counter("replica.confirmations", "{answer}", "Answers of the replicas that were asked to confirm locks, by their outcome."),
		drops:         counter("hook.drops", "{event}", "Batches of renewals that are not in the metrics of batches."),
		logDrops:      counter("log.drops", "{record}", "Log records that were dropped because the Logger was slow or failed."),
		fired:         counter("timer.fired", "{timer}", "Timers that have fired."),
		panics:        counter("timer.panics", "{panic}", "Tasks of timers that have panicked."),
		timerLogDrops: counter("timer.log.drops", "{record}", "Log records of the timer engine that were dropped because the Logger was slow or failed."),
		wakeups:       counter("timer.wakeups", "{wakeup}", "Times that a goroutine of the timer engine woke up."),
		age:           seconds("renewal.due.age", "How long the oldest of the renewals that wait has been due."),
		lateMax:       seconds("timer.lateness.max", "Greatest lateness of a timer since the start."),
		taskMax:       seconds("timer.task.max", "Duration of the longest task of a timer since the start."),
	}
	o.all = all
	return o, errors.Join(m.errs...)
}
