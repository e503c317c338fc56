// The lines that the harness and the process of a client exchange.

package main

import "golang.org/x/sys/unix"

// request is a line from the harness. The process answers each request with a reply of the same ID, in
// any order, because an acquire waits.
type request struct {
	ID      int    `json:"id"`
	Do      string `json:"do"`
	Session string `json:"session,omitempty"` // a client of the library with connections of its own
	Key     string `json:"key,omitempty"`
	N       int    `json:"n,omitempty"`  // the sessions of a contend
	Millis  int    `json:"ms,omitempty"` // the length of a contend
}

// What a request asks for.
const (
	doHello   = "hello"   // the versions
	doOpen    = "open"    // connect a session, and acquire and release a lock once
	doAcquire = "acquire" // wait for a lock
	doRelease = "release" // release the lock of a session
	doContend = "contend" // N sessions acquire and release one lock for a time
)

// message is a line from the process: a reply if it has an ID, otherwise an event.
type message struct {
	ID      int    `json:"id,omitempty"`
	Event   string `json:"event,omitempty"`
	Session string `json:"session,omitempty"`
	At      int64  `json:"at"`              // nanoseconds of CLOCK_MONOTONIC, which all processes share
	Token   uint64 `json:"token,omitempty"` // the fencing token; 0 means none
	Error   string `json:"error,omitempty"`
	Text    string `json:"text,omitempty"`   // the versions
	Counts  []int  `json:"counts,omitempty"` // the turns of each session of a contend
}

// The events of a session that holds a lock.
const (
	eventTold  = "told"  // the library no longer counts the lock as held
	eventWrite = "write" // the session has written to the resource
)

// now returns the time that the messages have.
func now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // every Unix has this clock
	}
	return t.Nano()
}
