// Package benchmarks holds benchmarks of the engines and of leases:
//
//	go test -bench . -benchtime 1s -count 5
//
// Compare figures of one run only: the machine's speed drifts from run to run.
package benchmarks
