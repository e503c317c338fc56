// How a failed case is reported: by its first failure.

package scheduletest

import (
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
)

// caseT is the testing.T of a case. It prints the first failure only: a case may check thousands
// of timers.
type caseT struct {
	*testing.T
	outer  *testing.T // prints even if the bubble never ends
	failed atomic.Bool
}

// Errorf replaces [testing.T.Errorf].
func (t *caseT) Errorf(format string, args ...any) {
	t.Helper()
	if !t.failed.Swap(true) {
		t.outer.Errorf(format, args...)
	}
	t.Fail()
}

// inBubble runs f in a bubble.
//
// If a goroutine of the bubble blocks forever, synctest panics, which would end the test
// binary. inBubble makes it a failure of this case. The goroutines of the bubble remain.
func inBubble(outer *testing.T, f func(t *caseT)) {
	outer.Helper()
	t := &caseT{outer: outer}
	defer func() {
		outer.Helper()
		if v := recover(); v != nil {
			err, ok := v.(error)
			if !ok || !strings.HasPrefix(err.Error(), "deadlock") {
				panic(v)
			}
			t.failed.Store(true) // the goroutines that remain print nothing
			outer.Errorf("%v; the engine may have lost the goroutine that runs tasks or that Close waits for", err)
		}
	}()
	synctest.Test(outer, func(inner *testing.T) {
		t.T = inner
		f(t)
	})
}
