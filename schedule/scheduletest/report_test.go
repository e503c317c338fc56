package scheduletest_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/schedule/scheduletest"
)

// earlyEngine fires timers at half of their time.
type earlyEngine struct{ *Engine }

func (e earlyEngine) Schedule(d time.Duration, t schedule.Task) (schedule.Timer, error) {
	return e.Engine.Schedule(d/2, t)
}

// forgetfulEngine does not return tasks from Close.
type forgetfulEngine struct{ *Engine }

func (e forgetfulEngine) Close() []schedule.Task {
	e.Engine.Close()
	return nil
}

// stuckEngine waits forever for a Run that has called runtime.Goexit.
type stuckEngine struct{ *Engine }

func (e stuckEngine) Schedule(d time.Duration, t schedule.Task) (schedule.Timer, error) {
	if t == nil {
		return e.Engine.Schedule(d, nil)
	}
	return e.Engine.Schedule(d, stuckTask{t})
}

func (e stuckEngine) Close() []schedule.Task {
	tasks := e.Engine.Close()
	for i := range tasks {
		tasks[i] = tasks[i].(stuckTask).Task
	}
	return tasks
}

type stuckTask struct{ schedule.Task }

func (s stuckTask) EngineClosed() {
	if h, ok := s.Task.(schedule.CloseHandler); ok {
		h.EngineClosed()
	}
}

func (s stuckTask) Run(t schedule.Timer) {
	returned := false
	defer func() {
		if returned {
			return
		}
		if v := recover(); v != nil {
			panic(v)
		}
		select {}
	}()
	s.Task.Run(t)
	returned = true
}

var brokenEngines = map[string]func(*Engine) scheduletest.Engine{
	"early":     func(e *Engine) scheduletest.Engine { return earlyEngine{e} },
	"forgetful": func(e *Engine) scheduletest.Engine { return forgetfulEngine{e} },
	"stuck":     func(e *Engine) scheduletest.Engine { return stuckEngine{e} },
}

const brokenVariable = "SCHEDULETEST_BROKEN"

// TestBrokenEngine fails in the processes of TestAFailureIsShort.
func TestBrokenEngine(t *testing.T) {
	broken := brokenEngines[os.Getenv(brokenVariable)]
	if broken == nil {
		t.Skip("for TestAFailureIsShort")
	}
	scheduletest.Test(t, scheduletest.Config{
		New:     func(_ *testing.T, o scheduletest.Options) scheduletest.Engine { return broken(NewEngine(o)) },
		Workers: scheduletest.Unlimited,
	})
}

// Broken engines fail the cases that their faults affect, with one failure each, and do not
// end the test binary.
func TestAFailureIsShort(t *testing.T) {
	for name, want := range map[string][]string{
		"early": {
			`E1E2_fires_within_its_slack .*\n(.*\n){0,12}.*timer \d+ fired early\n`,
			`E1_never_early_on_busy_CPUs`,
			`seed_0 .*\n(.*\n)?.*operation \d+, \+.*: wrong deadline\n.*replay: go test -run`,
		},
		"forgetful": {`E5_Close_returns_pending_tasks (.*\n)+?.*tasks that Close did not return`},
		"stuck": {
			`a_Goexit_does_not_stop_the_engine .*\n.*deadlock`,
			`a_task_that_panics_or_exits_after_Reset_fires_again`, // a later case: the binary goes on
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			run := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestBrokenEngine$")
			if name == "stuck" { // operations of the model may wait for the lost goroutine with a mutex held
				run.Args = append(run.Args, "-test.skip=/^E7")
			}
			run.Env = append(os.Environ(), brokenVariable+"="+name, "SCHEDULETEST_OPERATIONS=500")
			bytes, err := run.CombinedOutput()
			var failed *exec.ExitError
			require.ErrorAs(t, err, &failed)
			out := string(bytes)
			assert.NotContains(t, out, "panic:")
			assert.NotContains(t, out, "[running]")
			for _, pattern := range want {
				assert.Regexp(t, pattern, out)
			}
			for _, failure := range strings.Split(out, "--- FAIL: ")[1:] {
				assert.LessOrEqual(t, strings.Count(failure, "Error Trace:"), 1, "%s", failure)
			}
		})
	}
}
