// Package core is the backend of the simulator whose store keeps leases in memory, behind a
// simulated network. It simulates what a real Redis shows too rarely: messages that are lost,
// late, doubled or reordered, servers that lose data, and clocks that drift and step.
//
// The fate of a message depends on the seed and on what the message is, and not on the order
// in which goroutines run.
package core
