// Command timers measures the timer engines of this module beside those that a
// program could use in their place, and holds the figures against goals.
//
//	go run ./timers                     # all of it, about eleven minutes
//	go run ./timers -quick              # two minutes, coarser figures
//	go run ./timers -rows replace,reset -peers wheel,std
//	go run ./timers -docs ../docs       # also write the report and the charts
//	go run ./timers -render ../docs/bench/results.json -docs ../docs
//
// Each sample runs in a process of its own: this program started again with
// -sample, or a JVM for Netty. The peers of a row take turns within a round, and
// a ratio is the median, over the rounds, of the ratio of neighbours in time. So
// a machine that slows down for a while slows down all of them.
package main
