// Package leasewheel is the root of a library of timer engines and distributed
// locks. It contains no code: import the package that you need.
//
//   - [schedule] is the contract of a timer engine: Scheduler, Timer, Task.
//   - [wheel] is a hashed timing wheel, for timers by the million.
//   - [heapqueue] is a blocking priority queue, and a timer engine over it. Wheel and
//     heap are interchangeable.
//   - [renewal] is a watchdog that renews leases in batches and tells holders of a loss
//     in time.
//   - [lock] has distributed locks on top of the watchdog; [redisstore] keeps them in
//     Redis.
//
// Start with package lock for distributed locks, and with package wheel for timers. The
// [guide] describes how to choose and use them, [safety] what a lease can and cannot
// promise, and [architecture] how the layers fit together. The [examples] are complete
// programs.
//
// # Logs
//
// One rule holds for the field Logger in the Options of all packages. Nil means
// slog.Default() at the time of each record. A logger of a slog.DiscardHandler silences
// the package. Stores have no logger: the client that uses a store logs for it.
//
// Regular service logs nothing. A fault that costs a lock or delays timers is a warning,
// and a panic of a task is an error. The attributes key and token name the lock, and owners
// are never logged. A message about one lock or task is written at most 100 times a minute,
// and the last of these records says that others are omitted. A message about a lasting
// condition, such as a blocked engine, is written at most once a minute. Counters and hooks are
// always complete.
//
// [schedule]: https://pkg.go.dev/github.com/leasewheel/leasewheel/schedule
// [wheel]: https://pkg.go.dev/github.com/leasewheel/leasewheel/wheel
// [heapqueue]: https://pkg.go.dev/github.com/leasewheel/leasewheel/heapqueue
// [renewal]: https://pkg.go.dev/github.com/leasewheel/leasewheel/renewal
// [lock]: https://pkg.go.dev/github.com/leasewheel/leasewheel/lock
// [redisstore]: https://pkg.go.dev/github.com/leasewheel/leasewheel/lock/redisstore
// [guide]: https://github.com/leasewheel/leasewheel/blob/main/docs/GUIDE.md
// [safety]: https://github.com/leasewheel/leasewheel/blob/main/docs/SAFETY.md
// [architecture]: https://github.com/leasewheel/leasewheel/blob/main/docs/ARCHITECTURE.md
// [examples]: https://github.com/leasewheel/leasewheel/blob/main/examples
package leasewheel
