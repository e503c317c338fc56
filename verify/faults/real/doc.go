// Package real runs clients of package lock against a real redis-server, each through
// its own proxy, while a nemesis breaks connections, drops and delays data, and stops,
// kills and restarts the server. The load and its checker are those of package histories.
//
// The seed decides the faults and their order. Time is real, so a seed does not repeat a run exactly.
package real
