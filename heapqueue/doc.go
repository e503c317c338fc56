// Package heapqueue waits for many instants at once, exactly: [Queue] is a
// blocking priority queue whose Pop sleeps until the earliest value is due or an
// earlier one arrives, and [Scheduler] is a timer engine made of a fixed set of
// workers that take from such a queue.
//
// # Which engine
//
// The Scheduler fires each timer at its own instant, as exactly as the timers of
// the Go runtime do, at O(log n) per operation. The engine of package wheel fires
// at the ticks of a clock face, so it is late by up to a tick, at O(1) per
// operation. Take this one when an instant matters or timers are few or unevenly
// spread; take the wheel when timers are many and may fire together, as the
// renewals of leases do. Both keep the contract of package schedule.
//
// # How it works
//
// Values lie in a slab, their order in an indexed 4-ary heap, one mutex guards
// both, and a value of 16 bytes costs less than 50 in all. Nothing is allocated
// per value once the memory is there; the memory of a large queue is given back
// when it runs empty.
//
// Waiting follows the leader/followers pattern: those who wait stand in line, the
// first alone sleeps on the clock, and whoever leaves with a value wakes the next,
// so a value never wakes more than one. It does what a blocking queue on a
// monitor does with Wait and Pulse, for waiters that can be cancelled.
package heapqueue
