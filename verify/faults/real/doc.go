// Package real runs clients of package lock against a real redis-server, each through
// its own proxy, while a nemesis breaks connections, drops and delays data, and stops,
// kills and restarts the server. The history of what the users of these clients saw is
// checked.
//
// One checker is that of package histories. The other is a counter that only
// holders increment and that rejects tokens below the highest one so far. At the end it
// must equal the number of acknowledged writes.
//
// The seed decides the faults, their order, and what the users do. Time is real, so a
// seed does not repeat a run exactly.
package real
