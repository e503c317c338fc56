package mutant

import (
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/verify/part"
)

// Tested is a mistake as in List, and the tests that must catch it, for what takes
// real time.
type Tested struct {
	Name, File, From, To string

	Args  []string // of the test binary
	Shows string   // an expression for what a test says that catches it
}

// InTests tests the mutants whose names match the expression on the tests of the
// package under test, in the long tiers or if there is an expression. Otherwise it only
// looks whether each still has its place in the code.
func InTests(t *testing.T, mutants []Tested, matching string, report *part.Report) {
	t.Helper()
	wanted := regexp.MustCompile(matching)
	for _, m := range mutants {
		if matching == "" && !part.IsLong() {
			mutant{m.Name, m.File, m.From, m.To}.overlay(t)
			continue
		}
		if !wanted.MatchString(m.Name) {
			continue
		}
		t.Run(m.Name, func(t *testing.T) {
			const bound = 20 * time.Minute
			began := time.Now()
			program := mutant{m.Name, m.File, m.From, m.To}.build(t)
			out, err := run(t, program, bound, m.Args...)
			if !assert.Error(t, err, "it survived") {
				return
			}
			said := regexp.MustCompile(m.Shows).FindString(out)
			require.NotEmpty(t, said, "it failed, but not for what the mutant does:\n%s", out)
			report.Add("mutant      %s: %.0f s, %s", m.Name, time.Since(began).Seconds(), said)
		})
	}
}
