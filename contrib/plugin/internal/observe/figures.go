// The figures that are read at each collection.

package observe

import (
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/schedule"
)

// The upper bounds of the buckets of histograms: seconds, and leases in a batch.
var (
	AcquireBuckets  = []float64{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 60}
	HoldBuckets     = []float64{0.01, 0.1, 1, 10, 60, 600, 3600}
	MarginBuckets   = []float64{0, 0.01, 0.1, 1, 5, 10, 30, 60}
	BatchBuckets    = []float64{0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10}
	SizeBuckets     = []float64{1, 8, 64, 256, 1024, 4096}
	LatenessBuckets = []float64{0.001, 0.01, 0.1, 0.5, 1, 5, 10, 60}
)

// Figure is a metric that is read from Stats, with its value. The figures of zero Stats name all metrics.
type Figure struct {
	Prometheus, OTel string // names without the prefix
	Kind             FigureKind
	Unit             string // of OpenTelemetry
	Help             string
	Outcome          string // value of the label outcome; "" without that label
	Value            float64
}

// FigureKind is the type of a metric.
type FigureKind uint8

// The kinds. Seconds are a level in fractions of a second.
const (
	Level FigureKind = iota
	Counter
	Seconds
)

// OfClient returns the figures of a client.
func OfClient(s lock.Stats) []Figure {
	const renewals, confirmations = "Renewals of leases by their outcome.",
		"Answers of the replicas that were asked to confirm locks, by their outcome."
	r, asked := s.Renewal, s.Replicas
	return []Figure{
		{"lock_waiters", "lock.waiter", Level, "{waiter}", "Calls of Lock that do not have their lock yet.", "", float64(s.Waiting)},
		{"leases_held", "lease.held", Level, "{lease}", "Leases that are held and renewed.", "", float64(r.Held)},
		{
			"renewals_due", "renewal.due", Level, "{lease}",
			"Leases whose renewal is due and waits for a free call of the store.", "", float64(r.Due),
		},
		{
			"renewal_due_age_seconds", "renewal.due.age", Seconds, "s",
			"How long the oldest of the renewals that wait has been due.", "", r.Oldest.Seconds(),
		},
		{
			"renewals_inflight", "renewal.inflight", Level, "{call}",
			"Calls of the store under way that renew leases.", "", float64(r.InFlight),
		},
		{
			"releases_pending", "release.pending", Level, "{lease}",
			"Leases that are being released in the background.", "", float64(s.Releasing),
		},
		{"renewal_leases_total", "renewal.leases", Counter, "{lease}", renewals, "renewed", float64(r.Renewed)},
		{"renewal_leases_total", "renewal.leases", Counter, "{lease}", renewals, "not_owned", float64(r.NotOwned)},
		{"renewal_leases_total", "renewal.leases", Counter, "{lease}", renewals, "unknown", float64(r.Unknown)},
		{"replica_confirmations_total", "replica.confirmations", Counter, "{answer}", confirmations, "enough", float64(asked.Enough)},
		{"replica_confirmations_total", "replica.confirmations", Counter, "{answer}", confirmations, "too_few", float64(asked.TooFew)},
		{"replica_confirmations_total", "replica.confirmations", Counter, "{answer}", confirmations, "unanswered", float64(asked.Unanswered)},
		{
			"hook_drops_total", "hook.drops", Counter, "{event}",
			"Batches of renewals that are not in the metrics of batches.", "", float64(r.DroppedHooks),
		},
		{
			"log_drops_total", "log.drops", Counter, "{record}",
			"Log records that were dropped because the Logger was slow or failed.", "", float64(r.DroppedLogs),
		},
	}
}

// OfEngine returns the figures of a timer engine.
func OfEngine(s schedule.Stats) []Figure {
	return []Figure{
		{"timers_pending", "timer.pending", Level, "{timer}", "Timers that are pending or running.", "", float64(s.Pending)},
		{"timer_fired_total", "timer.fired", Counter, "{timer}", "Timers that have fired.", "", float64(s.Fired)},
		{"timer_panics_total", "timer.panics", Counter, "{panic}", "Tasks of timers that have panicked.", "", float64(s.Panics)},
		{
			"timer_log_drops_total", "timer.log.drops", Counter, "{record}",
			"Log records of the timer engine that were dropped because the Logger was slow or failed.", "", float64(s.DroppedLogs),
		},
		{
			"timer_wakeups_total", "timer.wakeups", Counter, "{wakeup}",
			"Times that a goroutine of the timer engine woke up.", "", float64(s.Wakeups),
		},
		{
			"timer_lateness_max_seconds", "timer.lateness.max", Seconds, "s",
			"Greatest lateness of a timer since the start.", "", s.LateMax.Seconds(),
		},
		{
			"timer_task_max_seconds", "timer.task.max", Seconds, "s",
			"Duration of the longest task of a timer since the start.", "", s.LongestTask.Seconds(),
		},
	}
}
