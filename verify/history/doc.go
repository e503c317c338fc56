// Package history has the Redis locks that came before this one, each written
// small and readable, and schedules in which they fail. docs/PROTOCOLS.md is the
// page to them.
//
//	setnx.go       SETNX, then EXPIRE
//	getset.go      SETNX of a time, then GETSET
//	setpx.go       SET NX PX, and DEL
//	token.go       SET NX PX, and a DEL that looks at the owner first
//	redlock.go     the same on several servers, by majority
//	redisson.go    a hash with a count, a watchdog, a channel
//	multilock.go   several of those
//	hashmulti.go   many members in one hash
//
// Each is what its users run, and no more than that: none is meant for use.
//
// The tests are schedules: a list of steps of processes, servers and clocks, in
// virtual time. A process can be stopped between any two requests, crash, be cut
// off; a request can come late, its reply get lost. Each runs the old lock first
// and then, under the same faults, ours. With -v they print every step:
//
//	cd verify && go test -v -run TestSetNX ./history
package history
