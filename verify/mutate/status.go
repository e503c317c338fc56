package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"regexp"
)

// status is the result of a mutant.
type status int

const (
	notRun    status = iota
	notViable        // it does not compile
	killed
	timedOut
	equivalent
	notCovered // no test executes its line
	survived
)

// sample draws n of the mutants that match and have not run. It returns all of them if
// n is 0.
func sample(mutants []*mutant, only *regexp.Regexp, n int, seed uint64) []*mutant {
	var matching []*mutant
	for _, m := range mutants {
		if m.status == notRun && only.MatchString(m.String()) {
			matching = append(matching, m)
		}
	}
	if n == 0 || n >= len(matching) {
		return matching
	}
	rng := rand.New(rand.NewPCG(seed, 0))
	rng.Shuffle(len(matching), func(i, j int) { matching[i], matching[j] = matching[j], matching[i] })
	return matching[:n]
}

// counts has the number of mutants of each status.
type counts [survived + 1]int

// score returns the mutation score: the percentage of killed mutants among those that
// compile and are not equivalent.
func (c counts) score() float64 {
	dead := c[killed] + c[timedOut]
	all := dead + c[survived] + c[notCovered]
	return 100 * float64(dead) / float64(max(all, 1))
}

// print prints a mutant that the tests did not kill.
func (m *mutant) print(w io.Writer) {
	switch m.status {
	case survived:
		fmt.Fprintf(w, "SURVIVED    %v\n", m)
	case notCovered:
		fmt.Fprintf(w, "NOT COVERED %v\n", m)
	case notRun, notViable, killed, timedOut, equivalent:
	}
}

// summarize prints one line about the mutants of a package.
func summarize(w io.Writer, pkg string, mutants []*mutant) counts {
	var c counts
	total := 0
	for _, m := range mutants {
		if m.status != notRun && m.status != notViable {
			c[m.status]++
			total++
		}
	}
	fmt.Fprintf(w, "%-16s %d mutants: %d killed, %d timed out, %d equivalent, %d survived, %d not covered; mutation score %.1f %%\n",
		pkg, total, c[killed], c[timedOut], c[equivalent], c[survived], c[notCovered], c.score())
	return c
}
