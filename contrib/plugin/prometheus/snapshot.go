// The figures that are read at each collection.

package leaseprom

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/schedule"
)

// snapshotDescs describe the metrics that are read from Stats.
type snapshotDescs struct {
	waiters, held, due, age, inFlight, pending  *prometheus.Desc
	leases, lateness, drops, logDrops, replicas *prometheus.Desc

	timers, fired, panics, timerLogDrops, wakeups, lateMax, taskMax *prometheus.Desc
}

func newSnapshotDescs(constant prometheus.Labels) snapshotDescs {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("leasewheel_"+name, help, labels, constant)
	}
	return snapshotDescs{
		waiters:  desc("lock_waiters", "Calls of Lock that do not have their lock yet."),
		held:     desc("leases_held", "Leases that are held and renewed."),
		due:      desc("renewals_due", "Leases whose renewal is due and waits for a free call of the store."),
		age:      desc("renewal_due_age_seconds", "How long the oldest of the renewals that wait has been due."),
		inFlight: desc("renewals_inflight", "Calls of the store under way that renew leases."),
		pending:  desc("releases_pending", "Leases that are being released in the background."),
		leases:   desc("renewal_leases_total", "Renewals of leases by their outcome.", "outcome"),
		lateness: desc("renewal_lateness_seconds", "How late renewals were sent."),
		replicas: desc("replica_confirmations_total", "Answers of the replicas that were asked to confirm locks, by their outcome.", "outcome"),
		drops:    desc("hook_drops_total", "Batches of renewals that are not in the metrics of batches."),
		logDrops: desc("log_drops_total", "Log records that were dropped because the Logger was slow or failed."),

		timers:        desc("timers_pending", "Timers that are pending or running.", "engine"),
		fired:         desc("timer_fired_total", "Timers that have fired.", "engine"),
		panics:        desc("timer_panics_total", "Tasks of timers that have panicked.", "engine"),
		timerLogDrops: desc("timer_log_drops_total", "Log records of the timer engine that were dropped because the Logger was slow or failed.", "engine"),
		wakeups:       desc("timer_wakeups_total", "Times that a goroutine of the timer engine woke up.", "engine"),
		lateMax:       desc("timer_lateness_max_seconds", "Greatest lateness of a timer since the start.", "engine"),
		taskMax:       desc("timer_task_max_seconds", "Duration of the longest task of a timer since the start.", "engine"),
	}
}

// describe sends all descriptions.
func (d *snapshotDescs) describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{
		d.waiters, d.held, d.due, d.age, d.inFlight, d.pending, d.leases, d.lateness, d.drops, d.logDrops, d.replicas,
		d.timers, d.fired, d.panics, d.timerLogDrops, d.wakeups, d.lateMax, d.taskMax,
	} {
		ch <- desc
	}
}

// collect sends the metrics of a client.
func (d *snapshotDescs) collect(ch chan<- prometheus.Metric, s lock.Stats) {
	send := sender{ch}
	r := s.Renewal
	send.gauge(d.waiters, float64(s.Waiting))
	send.gauge(d.held, float64(r.Held))
	send.gauge(d.due, float64(r.Due))
	send.gauge(d.age, r.Oldest.Seconds())
	send.gauge(d.inFlight, float64(r.InFlight))
	send.gauge(d.pending, float64(s.Releasing))
	send.counter(d.leases, r.Renewed, "renewed")
	send.counter(d.leases, r.NotOwned, "not_owned")
	send.counter(d.leases, r.Unknown, "unknown")
	send.counter(d.replicas, s.Replicas.Enough, "enough")
	send.counter(d.replicas, s.Replicas.TooFew, "too_few")
	send.counter(d.replicas, s.Replicas.Unanswered, "unanswered")
	send.counter(d.drops, r.DroppedHooks)
	send.counter(d.logDrops, r.DroppedLogs)
	ch <- prometheus.MustNewConstHistogram(d.lateness, r.Late.Count(), r.Late.Sum().Seconds(), cumulated(r.Late, latenessBuckets))
}

// collectEngine sends the metrics of a timer engine.
func (d *snapshotDescs) collectEngine(ch chan<- prometheus.Metric, engine string, s schedule.Stats) {
	send := sender{ch}
	send.gauge(d.timers, float64(s.Pending), engine)
	send.counter(d.fired, s.Fired, engine)
	send.counter(d.panics, s.Panics, engine)
	send.counter(d.timerLogDrops, s.DroppedLogs, engine)
	send.counter(d.wakeups, s.Wakeups, engine)
	send.gauge(d.lateMax, s.LateMax.Seconds(), engine)
	send.gauge(d.taskMax, s.LongestTask.Seconds(), engine)
}

// sender makes metrics with constant values.
type sender struct{ ch chan<- prometheus.Metric }

func (s sender) gauge(d *prometheus.Desc, value float64, labels ...string) {
	s.ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, value, labels...)
}

func (s sender) counter(d *prometheus.Desc, value uint64, labels ...string) {
	s.ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
}

// cumulated returns the number of durations of a histogram that are below each bound, in
// seconds.
func cumulated(h renewal.Histogram, bounds []float64) map[float64]uint64 {
	buckets := make(map[float64]uint64, len(bounds))
	for _, bound := range bounds {
		buckets[bound] = 0
	}
	for upper, count := range h.Buckets() {
		if count == 0 {
			continue
		}
		for _, bound := range bounds {
			if upper <= time.Duration(bound*float64(time.Second)) {
				buckets[bound] += count
			}
		}
	}
	return buckets
}
