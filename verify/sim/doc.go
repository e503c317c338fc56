// Package sim is a simulator of clients that compete for a few locks. It runs package lock,
// package renewal and the timer engines unchanged, in a synctest bubble, so that minutes of
// leases take milliseconds. A seed decides all events of a schedule, so a seed nearly always
// plays the same schedule again.
//
// A [Backend] supplies the store and its servers. Package core keeps leases in memory behind
// a simulated network. Package full runs package redisstore, go-redis and the real scripts
// against a simulated Redis. This package has the rest, of which world.go is a good start.
package sim
