// Package shared compares the Lua scripts of shared locks (modes Read, Write, Permit
// and Members) with a reference: the same rules as plain Go over a slice and a map.
//
// A generator sends random operations of many owners to both, including late and
// repeated ones. The scripts run on a server with simulated time. Replies must be
// equal, and so must the leases, ends, tokens, members and the queue in the keys. Every
// key must expire, and no records may be left of owners that neither hold nor wait.
// Package sim/full has the clients.
//
// On a real server the tests count the commands of each run of a script, on locks with
// 100,000 holders, waiters or expired entries. No run may exceed a fixed number.
package shared
