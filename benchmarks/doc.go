// Package benchmarks measures this module beside what a program would use
// without it. It holds benchmarks only:
//
//	go test -bench . -benchtime 1s -count 5
//
// Compare figures of one run only: the machine's speed drifts from run to run.
package benchmarks
