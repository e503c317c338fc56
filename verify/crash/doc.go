// Package crash runs holders of locks as processes of their own and ends them as the
// world does: killed with their locks, killed amid acquires, stopped beyond their
// TTL and continued, asked to terminate. The processes are the test binary itself,
// which takes orders from its environment. It runs on Linux.
package crash
