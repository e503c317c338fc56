// Command timers measures the timer engines of this module and the timers that a
// program could use instead, and compares the figures with goals.
//
//	go run ./timers                     # all rows, about an hour
//	go run ./timers -quick              # three minutes, less precise
//	go run ./timers -rows replace,reset -peers wheel,std
//	go run ./timers -render results/timers.json -docs ../docs
//
// Each sample runs in a process of its own: this program with the flag -sample, or
// a JVM for Netty. Within a round the peers of a row run one after another. A ratio
// is the median over the rounds of the ratio within a round, so a machine that is
// slow for a while slows down both sides of a ratio.
package main
