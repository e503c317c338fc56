// Package legacy implements older locks on Redis in small form, and tests the
// scenarios in which they fail. docs/PROTOCOL.md sums them up.
//
//	setnx.go       SETNX, then EXPIRE
//	setpx.go       SET NX PX, and DEL
//	token.go       SET NX PX, and a DEL that compares the value
//	redlock.go     the same on a majority of several servers
//	redisson.go    a hash with a count, a watchdog, a channel
//
// None of them is meant for use.
//
// A plan is a schedule of faults as data, which is played in simulated time. A process can
// pause between any two requests, or crash. A request can be late, and its reply lost.
// TestKnownSchedules breaks each of these locks. TestRandomPlans plays random plans with
// each of them and with the lock of this module, as the playground does.
package legacy
