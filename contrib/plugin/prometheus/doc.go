// Package leaseprom exports what the locks of a process do as Prometheus metrics.
//
//	metrics, err := leaseprom.New(&leaseprom.Options{Store: "redis"})
//	client, err := metrics.NewClient(store, &lock.Options{Terms: lock.Terms{TTL: 30 * time.Second}})
//	prometheus.MustRegister(metrics)
//
// # Metrics
//
// Each metric has the label store, which is Options.Store. No metric has the key of a lock as
// a label, because there may be many keys. With Options.Namer, the metrics that are marked with
// (name) have a label name with what the function returns for the key.
//
//	leasewheel_lock_acquire_duration_seconds  histogram  kind, outcome, error_type, (name)
//	leasewheel_lock_hold_duration_seconds     histogram  kind, end, (name)
//	leasewheel_lock_waiters                   gauge      calls of Lock that have no lock yet
//	leasewheel_leases_held                    gauge
//	leasewheel_lease_losses_total             counter    kind, reason, (name)
//	leasewheel_lease_loss_margin_seconds      histogram  reason
//	leasewheel_renewal_leases_total           counter    outcome: renewed, not_owned, unknown
//	leasewheel_renewal_batch_duration_seconds histogram  error_type
//	leasewheel_renewal_batch_size             histogram
//	leasewheel_renewal_lateness_seconds       histogram
//	leasewheel_renewals_due                   gauge
//	leasewheel_renewal_due_age_seconds        gauge      how long the oldest of them has been due
//	leasewheel_renewals_inflight              gauge      calls of the store under way
//	leasewheel_releases_pending               gauge
//	leasewheel_replica_confirmations_total    counter    outcome: enough, too_few, unanswered
//	leasewheel_hook_drops_total               counter    batches that are missing in the batch metrics
//	leasewheel_log_drops_total                counter    log records that a slow or failing Logger did not take
//	leasewheel_election_leading               gauge      (name)
//	leasewheel_election_transitions_total     counter    (name)
//	leasewheel_timers_pending                 gauge      engine
//	leasewheel_timer_fired_total              counter    engine
//	leasewheel_timer_panics_total             counter    engine
//	leasewheel_timer_log_drops_total          counter    engine
//	leasewheel_timer_wakeups_total            counter    engine
//	leasewheel_timer_lateness_max_seconds     gauge      engine
//	leasewheel_timer_task_max_seconds         gauge      engine
//
// kind is a lock.Kind and outcome, of an acquisition, a lock.Outcome. error_type is empty unless
// the outcome is unavailable or error, or a batch has failed; it is timeout, unavailable,
// too_many, closed, wrong_type or other. end is unlocked, closed, detached, lost or
// limit_reached. reason is not_owned, failed, expired or limit_reached.
//
// A lock that reaches the end that its terms have set, by MaxHold or Fixed, has the end and the
// reason limit_reached. That was ordered and is no failure: leave it out of alerts.
//
// leasewheel_lease_loss_margin_seconds is the time that a holder had left when it was notified of
// the loss. It is 0 if the notification was too late. It has no reason not_owned, because then
// nobody knows the time.
//
// leasewheel_election_leading is 1 while this client leads, and 0 once it has taken part in an
// election. Without a Namer it is the number of elections that the client leads. The transitions
// are the terms that it has begun, so their sum over all processes counts the changes of leaders.
//
// The counters of losses exist with the value 0 once a lock of their kind was acquired, so that
// the first loss is an increase.
//
// # What is missing
//
//   - Locks are counted as their users see them: a Multi is one, and entering a Reentrant again is
//     none. Leases and renewals are counted as the store sees them: a Multi of three locks has three.
//   - The engine that a client makes for itself is not visible. The metrics of timers exist if
//     lock.Options.Scheduler is an engine with Stats, such as a wheel.Wheel.
//   - The lateness is that of each renewal since the client was made. A bucket leaves out up
//     to an eighth of the durations just below its bound, because the client counts in buckets of its own.
//
// # Files
//
// The folder has a Grafana dashboard, dashboard.json, and rules for alerts, alerts.yml. The page
// [OPERATIONS.md] explains what to do about each alert.
//
// # Cost
//
// An uncontended Lock and its Unlock in memory take 1.4 times the processor time with these
// metrics, about 1.1 µs more, and 19 objects instead of 12. A Namer that cuts the key adds nothing
// that can be measured. These are medians of 11 runs of BenchmarkPair on two cores that others
// used, too. A renewal costs nothing by itself: there are two observations for each batch.
//
// [OPERATIONS.md]: https://github.com/leasewheel/leasewheel/blob/main/docs/OPERATIONS.md#alerts
package leaseprom
