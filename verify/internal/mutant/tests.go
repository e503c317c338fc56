// Mutants that ordinary tests must catch, in real time.

package mutant

import (
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/verify/internal/simreport"
)

// Tested is a mutant as in List, with the tests that must catch it. It is for tests that run
// in real time.
type Tested struct {
	Name, File, From, To string

	Args  []string // of the test binary
	Shows string   // a regular expression for the message of a test that catches it
}

// InTests runs the tests of the mutants whose names match a regular expression, in the long
// tiers or if there is an expression. Otherwise it only checks that the text of each mutant
// occurs once in its file.
func InTests(t *testing.T, mutants []Tested, matching string, report *simreport.Report) {
	t.Helper()
	wanted := regexp.MustCompile(matching)
	for _, m := range mutants {
		if matching == "" && !simreport.IsLong() {
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
