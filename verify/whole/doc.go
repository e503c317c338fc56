// Package whole runs all of this module together, unchanged: package lock with its
// renewals and timer engines, package redisstore, a real go-redis client over
// net.Pipe, and the real scripts in miniredis. Several client processes contend for
// few keys, in a synctest bubble, so minutes of leases take milliseconds.
//
// A seed decides all that they meet. Between each client and the server stands a
// network that knows every message: it delays, loses and doubles requests, loses
// answers or cuts them in two, and is partitioned. The server is restarted, refuses,
// forgets scripts or data, and has a clock of its own. Processes stand still and
// crash.
//
// The fate of a message hangs on the seed and on what the message is: which script,
// for which acquisition, and how often it was sent before.
//
// Oracles know the promises of docs/SAFETY.md. They look after every command of the
// server, at random instants and around each deadline: at what handles say, and at
// the keys of the server.
package whole
