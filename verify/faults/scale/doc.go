// Package scale tests very large numbers: entries of a watchdog, locks of a client,
// holders of one key, lanes, and members of a batch.
//
// No test depends on the speed of the machine. Each one compares two costs: that of an
// operation next to few and next to many others, or the longest delay of others with the
// duration of the whole operation.
package scale
