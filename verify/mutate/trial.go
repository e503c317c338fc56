package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
)

// outcome is what became of a mutant.
type outcome int

const (
	untried outcome = iota
	doesNotCompile
	killed
	timedOut
	equivalent
	uncovered // no test executes its line
	survived
)

// choose draws n of the mutants that match, or takes all if n is 0.
func (t *target) choose(only *regexp.Regexp, n int, seed uint64) []*mutant {
	var some []*mutant
	for _, m := range t.mutants {
		if m.outcome == untried && only.MatchString(m.String()) {
			some = append(some, m)
		}
	}
	if n == 0 || n >= len(some) {
		return some
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	rng.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
	return some[:n]
}

// counts are the mutants of a package by what became of them.
type counts [survived + 1]int

// ratio is the share of those killed among those that could be, in percent.
func (c counts) ratio() float64 {
	dead := c[killed] + c[timedOut]
	all := dead + c[survived] + c[uncovered]
	return 100 * float64(dead) / float64(max(all, 1))
}

// print prints a mutant that was not killed.
func (m *mutant) print(w io.Writer) {
	switch m.outcome {
	case survived:
		fmt.Fprintf(w, "SURVIVED  %v\n", m)
	case uncovered:
		fmt.Fprintf(w, "UNCOVERED %v\n", m)
	case untried, doesNotCompile, killed, timedOut, equivalent:
	}
}

// report prints a line about a package.
func report(w io.Writer, name string, mutants []*mutant) counts {
	var c counts
	for _, m := range mutants {
		c[m.outcome]++
	}
	fmt.Fprintf(w, "%-16s %d mutants: %d killed, %d timed out, %d equivalent, %d survived, %d not executed by any test: %.1f %% killed\n",
		name, len(mutants), c[killed], c[timedOut], c[equivalent], c[survived], c[uncovered], c.ratio())
	return c
}
