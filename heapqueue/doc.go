// Package heapqueue waits for many instants at once, exactly. [Queue] is a blocking job
// queue: Pop sleeps until a value is due, and returns the due value with the greatest
// priority. [Scheduler] is a timer engine with a fixed number of workers on such a queue.
//
// # Which engine
//
// Scheduler fires each timer at its own instant, as exactly as the timers of the Go
// runtime. An operation costs O(log n). The engine of package wheel fires timers at
// ticks, late by up to one tick, and an operation costs O(1). Use Scheduler if exact
// instants matter or timers are few. Use the wheel if timers are many and may fire
// together, as the renewals of leases may. Both engines keep the contract of package
// schedule.
//
// # How it works
//
// Values lie in numbered slots, an indexed 4-ary heap holds their order, and one mutex
// guards both. A timer takes less than 50 bytes in all, and a value in a Queue 8 bytes
// more. Only values with priorities pass a second heap, when they are due. No operation
// allocates memory in the steady state: only growth does. A large queue frees its memory
// when it runs empty. Due values leave the heap in batches, whose memory is fetched side
// by side.
//
// Callers of Pop wait in a list, first come, first served. Only the first one sleeps on
// the clock. A caller that leaves the list wakes the next one, so that one value never
// wakes two callers.
//
// The page [timers] compares the engines. The program [delayedjobs]
// uses a Queue.
//
// [timers]: https://github.com/leasewheel/leasewheel/blob/main/docs/TIMERS.md
// [delayedjobs]: https://github.com/leasewheel/leasewheel/blob/main/examples/delayedjobs/main.go
package heapqueue
