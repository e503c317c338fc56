// Package sim is a simulator of clients that compete for a few locks. It runs package lock,
// package renewal and the timer engines unchanged, in a synctest bubble, so that minutes of
// leases take milliseconds. A seed decides all events of a schedule, so a seed nearly always
// plays the same schedule again.
//
// A [Backend] supplies the store and its servers. Package core keeps leases in memory behind
// a simulated network. Package full runs package redisstore, go-redis and the real scripts
// against a simulated Redis. This package has the rest:
//
//	plan.go       what a seed decides before the schedule starts
//	world.go      one schedule: its clients, their users, and its backend
//	process.go    a client process, with its engine and its lock.Client
//	store.go      records what a client asks of its store
//	workload.go   users that lock, hold and unlock; reentrant.go, multi.go and modes.go for
//	              other kinds of locks
//	nemesis.go    faults, at random instants; clocks.go moves the clocks of the clients
//	history.go    the grants of the servers, and what their holders know about them
//	checker.go    invariants of docs/SAFETY.md; renewals.go, keeping.go, leaks.go and finish.go
//	              have more
//	counts.go     the counts of events, and their floors
//	harness.go    the tests that both backends share
package sim
