// Package full is the backend of the simulator that runs the full stack: package redisstore,
// a real go-redis client over net.Pipe, and the real scripts in miniredis.
//
// Between each client and each server stands a network that understands every message: it
// delays, loses and doubles requests, loses answers or cuts them in two, and is partitioned.
// A server is restarted, refuses to serve, forgets scripts or data, and has its own clock.
//
// The fate of a message depends on the seed and on what the message is: which script, for
// which acquisition, and how often it was sent before.
package full
