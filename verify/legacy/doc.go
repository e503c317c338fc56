// Package legacy implements older locks on Redis in small form, and tests the
// scenarios in which they fail. docs/PROTOCOL.md sums them up.
//
//	setnx.go       SETNX, then EXPIRE
//	getset.go      SETNX of a time, then GETSET
//	setpx.go       SET NX PX, and DEL
//	token.go       SET NX PX, and a DEL that compares the value
//	redlock.go     the same on a majority of several servers
//	redisson.go    a hash with a count, a watchdog, a channel
//
// None of them is meant for use.
//
// Each test is a scenario: a list of steps of processes, servers and clocks, in
// simulated time. A process can pause between any two requests, or crash. A request can
// be delayed, and its reply lost. With -v they print every step:
//
//	cd verify && go test -v -run TestSetNX ./legacy
//
// A plan is a schedule of faults as data. TestRandomPlans plays random ones with each of
// these locks and with the lock of this module, as the playground does.
package legacy
