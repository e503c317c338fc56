// Package crowd holds the scripts of package redisstore for shared locks (modes
// Read, Write, Permit and Members) against the rules that they implement.
//
// Random requests of many owners, late and repeated ones among them, are given to
// the scripts, which run on a server whose time is ours, and to the rules, which
// are plain Go over a slice and a map. Answers must be the same to the last digit,
// and so must be what lies at the keys: leases, ends, tokens, the queue, members.
// Besides, no key may be without an end, and nothing may be known of owners that
// neither hold nor wait.
//
// Clients of the rules are held against what they must be able to trust in: messages
// come never, late and twice, signals in any order. Whoever believes that it has the
// lock has it, until the moment that it believes; whoever has given up gets nothing any
// more; and when the faults end all that wait are served.
//
//	rules.go    the rules
//	server.go   the scripts, and what they leave at the keys
//	play.go     random requests, and the comparison
//	mutants.go  scripts that are broken, to see that it is found
//	clients.go  clients, their messages, and bugs of theirs
//	drain.go    the end of the faults
package crowd
