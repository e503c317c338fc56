// A Runner that prints the report after the tests of a package.

package simreport

import (
	"fmt"
	"os"
)

// Runner is a *testing.M, or a wrapper of one.
type Runner interface{ Run() int }

// Around returns a Runner that runs the tests and then prints the report.
func (r *Report) Around(m Runner) Runner { return reporting{m, r} }

type reporting struct {
	Runner
	report *Report
}

// Run implements Runner.
func (r reporting) Run() int {
	code := r.Runner.Run()
	if err := r.report.Print(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}
