// Package real runs clients of package lock against a real redis-server, each
// behind a proxy of its own, while a nemesis breaks connections, swallows and delays
// what is sent, and stops, kills and restarts the server. What the users of those
// clients saw is a history; it is held against what a lock may do.
//
// Two checkers look at it. One searches, for each key, an order of all that happened
// in which only one had the lock at a time and tokens rose: a lease may end when its
// holder unlocked it, or else no earlier than the last instant at which its holder
// was told that it holds. The other is a counter that is incremented by holders only,
// and refuses tokens that are lower than one it has seen: in the end it must be the
// number of writes that were acknowledged.
//
// The seed decides which faults come in which order, and what the users do. The time
// is real, so no seed plays the same run again.
package real
