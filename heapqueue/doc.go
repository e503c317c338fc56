// Package heapqueue waits for many instants at once, exactly. [Queue] is a blocking job
// queue: Pop sleeps until a value is due, and returns the due value with the greatest
// priority. [Scheduler] is a timer engine with a fixed number of workers on such a queue.
//
// Scheduler fires each timer at its own instant, as exactly as the timers of the Go
// runtime. An operation costs O(log n). The engine of package wheel fires timers at
// ticks, late by up to one tick, and an operation costs O(1). Use Scheduler if exact
// instants matter or timers are few.
//
// An indexed 4-ary heap holds the order of the values, and one mutex guards it. A timer takes
// less than 50 bytes in all, and a value in a Queue 8 bytes more. No operation allocates memory
// in the steady state: only growth does. A large queue frees its memory when it runs empty.
//
// The page [timers] compares the engines. The program [delayedjobs]
// uses a Queue.
//
// [timers]: https://github.com/leasewheel/leasewheel/blob/main/docs/TIMERS.md
// [delayedjobs]: https://github.com/leasewheel/leasewheel/blob/main/examples/delayedjobs/main.go
package heapqueue
