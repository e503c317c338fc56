package part

import (
	"fmt"
	"os"
)

// Runner is a *testing.M, or what is around one.
type Runner interface{ Run() int }

// Around returns a Runner of the tests that prints the report after them.
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
