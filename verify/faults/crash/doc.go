// Package crash runs holders of locks as child processes and kills them while they hold
// locks or acquire them, pauses them for longer than the TTL, and asks them to terminate.
// The child processes run the test binary, which reads an order from its environment.
// Some write a log under their locks, which a checker reads that knows nothing of the
// library, and nobody reads their standard error. Others count in the state of a lock.
// The tests run on Linux.
package crash
