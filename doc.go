// Package leasewheel is the root of a library in layers, each useful alone.
// It holds no code: import the layer that you need.
//
//	schedule    the contract of a timer engine: Scheduler, Timer, Task
//	wheel       a hashed timing wheel, for timers by the million       } interchangeable
//	heapqueue   a blocking priority queue, and a timer engine over it  } engines
//	renewal     a watchdog that renews leases in batches and tells the holder of a loss in time
//	lock        distributed locks on top of the watchdog; lock/redisstore keeps them in Redis
//
// Start with package lock for a distributed lock, with package wheel for
// timers. docs/GUIDE.md helps to choose and to use them, docs/SAFETY.md says what
// a lease can and cannot promise, docs/ARCHITECTURE.md how the layers fit together.
package leasewheel
