// Package leaseotel exports what the locks of a process do as metrics and spans of
// OpenTelemetry.
//
//	telemetry, err := leaseotel.New(&leaseotel.Options{Store: "redis"}) // with the global providers
//	client, err := telemetry.NewClient(store, &lock.Options{Terms: lock.Terms{TTL: 30 * time.Second}})
//	...
//	err = errors.Join(client.Close(ctx), telemetry.Close())
//
// The scope of all instruments is "leasewheel". The semantic conventions have no names for locks,
// so all names have this prefix, apart from error.type.
//
// # Metrics
//
// Each has the attribute leasewheel.store, which is Options.Store. None has the key of a lock,
// because there may be many keys. With Options.Namer, those marked with (name) have an
// attribute leasewheel.lock.name, or leasewheel.election.name, with what the function returns.
//
//	leasewheel.lock.acquire.duration   histogram      s          lock.kind, outcome, error.type, (name)
//	leasewheel.lock.hold.duration      histogram      s          lock.kind, end, (name)
//	leasewheel.lock.waiter             updowncounter  {waiter}   calls of Lock that have no lock yet
//	leasewheel.lease.held              updowncounter  {lease}
//	leasewheel.lease.losses            counter        {lease}    lock.kind, loss.reason, (name)
//	leasewheel.lease.loss.margin       histogram      s          loss.reason
//	leasewheel.renewal.leases          counter        {lease}    outcome: renewed, not_owned, unknown
//	leasewheel.renewal.batch.duration  histogram      s          error.type
//	leasewheel.renewal.batch.size      histogram      {lease}
//	leasewheel.renewal.lateness        histogram      s          of the latest lease of each batch
//	leasewheel.renewal.due             updowncounter  {lease}
//	leasewheel.renewal.due.age         gauge          s          how long the oldest of them has been due
//	leasewheel.renewal.inflight        updowncounter  {call}     calls of the store under way
//	leasewheel.release.pending         updowncounter  {lease}
//	leasewheel.replica.confirmations   counter        {answer}   outcome: enough, too_few, unanswered
//	leasewheel.hook.drops              counter        {event}    batches that are missing in the batch metrics
//	leasewheel.log.drops               counter        {record}   log records that a slow or failing Logger did not take
//	leasewheel.election.leading        updowncounter  {election} (name)
//	leasewheel.election.transitions    counter        {transition} (name)
//	leasewheel.timer.pending           updowncounter  {timer}    engine
//	leasewheel.timer.fired             counter        {timer}    engine
//	leasewheel.timer.panics            counter        {panic}    engine
//	leasewheel.timer.log.drops         counter        {record}   engine
//	leasewheel.timer.wakeups           counter        {wakeup}   engine
//	leasewheel.timer.lateness.max      gauge          s          engine
//	leasewheel.timer.task.max          gauge          s          engine
//
// The attributes other than error.type and (name) have the prefix leasewheel. lock.kind is a
// lock.Kind and outcome, of an acquisition, a lock.Outcome. error.type exists if the
// outcome is unavailable or error, or a batch has failed: timeout, unavailable, too_many,
// closed, wrong_type or _OTHER. end is unlocked, closed, detached, lost or limit_reached.
// loss.reason is not_owned, failed, expired or limit_reached.
//
// A lock that reaches the end that its terms have set, by MaxHold or Fixed, has the end and the
// reason limit_reached. That was ordered and is no failure: leave it out of alerts.
//
// leasewheel.lease.loss.margin is the time that a holder had left when it was notified of the loss. It
// is 0 if the notification was too late. It has no reason not_owned, because then nobody knows
// the time. leasewheel.election.leading is 1 while this client leads and 0 afterwards; without a
// Namer it is the number of elections that the client leads. The transitions are the
// terms that the client has begun.
//
// Locks are counted as their users see them: a Multi is one, and entering a Reentrant again is
// none. Leases and renewals are counted as the store sees them: a Multi of three locks has three.
// The engine that a client makes for itself is not visible: the metrics of timers exist if
// lock.Options.Scheduler is an engine with Stats, such as a wheel.Wheel.
//
// # Spans
//
// All spans are of kind internal and have leasewheel.store. Those of a lock have
// leasewheel.lock.kind and, with a Namer, leasewheel.lock.name, but no key.
//
//	lock acquire         each Lock and TryLock, with leasewheel.outcome, leasewheel.waited and
//	                     leasewheel.lock.token; an event "queued" when it begins to wait
//	lock release         each Unlock that ends a lock, with leasewheel.end
//	lease renewal batch  a batch of renewals that failed, or was late by Options.LateRenewal
//
// The store gets the context of these spans, so spans that it makes are their children: those of a
// store that is wrapped by driver.Wrap, as the section [watch it] of the guide shows, or
// of a store on an instrumented database. A redisstore has connections of its own, which the hooks of
// redisotel do not see. Renewals never belong to the trace of a caller, and a batch without a fault
// has no span: a client with 100,000 leases sends several a second.
//
// A lost lease is an event "lease lost" on the span of the ctx that was given to Lock, with
// leasewheel.loss.reason, leasewheel.loss.cause and leasewheel.loss.margin in seconds. If that span
// has ended before the loss is reported, the loss is a child of it, a span "lease lost". If there was
// no span, or it was not sampled, only the counter of losses has it.
//
// There is no span while a lock is held, which may be for hours. That a lock is taken is no
// error of a span, and neither is the end of the caller's ctx.
//
// # Cost
//
// The table has the processor time of an uncontended Lock and its Unlock in memory, as a ratio to a
// client without telemetry, and their objects: medians of 11 runs of BenchmarkPair on two cores
// that others used, too. Without telemetry the pair takes 2.9 µs and 12 objects.
//
//	providers that do nothing   1.5  25 objects
//	metrics                     1.7  25 objects
//	metrics, spans not sampled  1.9  29 objects
//	metrics, spans sampled      3.1  39 objects, without their export
//
// [watch it]: https://github.com/leasewheel/leasewheel/blob/main/docs/GUIDE.md#watch-it
package leaseotel
