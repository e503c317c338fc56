// Timers whose task is a function.

package schedule

import (
	"errors"
	"reflect"
	"time"
)

// AfterFunc calls f in its own goroutine after d has passed, as time.AfterFunc does, so f
// may block. Neither Stop of the timer nor Close of the engine waits for f. A panic of f is
// not recovered. AfterFunc returns an error if f or s is nil, and the errors of Schedule.
func AfterFunc(s Scheduler, d time.Duration, f func()) (Timer, error) {
	switch {
	case f == nil:
		return Timer{}, ErrNilTask
	case isNil(s):
		return Timer{}, errNilScheduler
	}
	return s.Schedule(d, funcTask(f))
}

var errNilScheduler = errors.New("schedule: nil scheduler")

// isNil reports whether s is nil or a nil pointer. A caller that ignores the error of a
// constructor passes a nil pointer.
func isNil(s Scheduler) bool {
	v := reflect.ValueOf(s)
	return s == nil || v.Kind() == reflect.Pointer && v.IsNil()
}

type funcTask func()

func (f funcTask) Run(Timer) { go f() }
