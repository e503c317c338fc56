// How a failed case is reported, in at most ten lines.

package scheduletest

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
)

const (
	maxLines = 8   // of a failure; the report has two more at most
	maxWidth = 160 // bytes in a line
)

// caseT is the testing.T of a case. It keeps the first failure for the report, instead of
// printing all: a case may check thousands of timers.
type caseT struct {
	*testing.T
	report *report
}

// Errorf replaces [testing.T.Errorf].
func (t *caseT) Errorf(format string, args ...any) {
	t.report.add(fmt.Sprintf(format, args...))
	t.Fail()
}

// inBubble runs f in a bubble and then prints its report.
//
// If a goroutine of the bubble blocks forever, synctest panics, which would end the test
// binary. inBubble makes it a failure of this case. The goroutines of the bubble remain.
func inBubble(t *testing.T, f func(t *caseT)) {
	t.Helper()
	r := new(report)
	defer func() {
		t.Helper()
		if v := recover(); v != nil {
			err, ok := v.(error)
			if !ok || !strings.HasPrefix(err.Error(), "deadlock") {
				panic(v)
			}
			r.deadlock(err)
		}
		r.print(t)
	}()
	synctest.Test(t, func(t *testing.T) { f(&caseT{T: t, report: r}) })
}

// report is what a case prints.
type report struct {
	mu    sync.Mutex // guards all below
	first string
	more  int    // failures after the first
	hang  string // the reason of a deadlock
}

func (r *report) add(failure string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.first == "" {
		r.first = shorten(failure)
		return
	}
	r.more++
}

func (r *report) deadlock(err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hang = fmt.Sprintf("%v; the engine may have lost the goroutine that runs tasks or that Close waits for", err)
}

// print fails the test with the report, if there is one.
func (r *report) print(t *testing.T) {
	t.Helper()
	r.mu.Lock()
	defer r.mu.Unlock()
	var lines []string
	if r.first != "" {
		lines = append(lines, r.first)
	}
	if r.more > 0 {
		lines = append(lines, fmt.Sprintf("and %d more failures of this case", r.more))
	}
	if r.hang != "" {
		lines = append(lines, r.hang)
	}
	if len(lines) > 0 {
		t.Error(strings.Join(lines, "\n"))
	}
}

// shorten leaves out the middle of a long text and of its long lines.
func shorten(text string) string {
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "Test:") { // go test prints its name
			continue
		}
		if len(line) > maxWidth {
			line = line[:maxWidth/2] + " ... " + line[len(line)-maxWidth/2:]
		}
		lines = append(lines, line)
	}
	if len(lines) > maxLines {
		const tail = 3 // the message of an assertion is at its end
		lines = append(append(lines[:maxLines-tail-1:maxLines-tail-1], "..."), lines[len(lines)-tail:]...)
	}
	return strings.Join(lines, "\n")
}
