package periodic_test

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/internal/periodic"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Calls come once per Interval while they are needed.
func TestChecksComeWhileTheyAreNeeded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w periodic.Check
		var checks atomic.Int64
		var working atomic.Bool
		w.Init(func() time.Duration {
			checks.Add(1)
			if working.Load() {
				return periodic.Interval
			}
			return 0
		})
		defer w.Close()
		time.Sleep(time.Hour)
		assert.Zero(t, checks.Load(), "nothing has begun")
		for range 100 {
			w.Need()
		}
		time.Sleep(time.Hour)
		assert.EqualValues(t, 1, checks.Load())
		working.Store(true)
		w.Need()
		time.Sleep(10*periodic.Interval + 1)
		assert.EqualValues(t, 11, checks.Load())
	})
}

// A Need during a check leads to another one.
func TestANeedDuringACheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w periodic.Check
		checks := 0
		w.Init(func() time.Duration {
			checks++
			if checks == 1 {
				w.Need()
			}
			return 0
		})
		defer w.Close()
		w.Need()
		time.Sleep(time.Minute)
		synctest.Wait()
		assert.Equal(t, 2, checks)
	})
}

// A call may ask for a later one. Need still brings one within an Interval.
func TestALaterCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w periodic.Check
		var checks, next atomic.Int64
		next.Store(int64(time.Hour))
		w.Init(func() time.Duration {
			checks.Add(1)
			return time.Duration(next.Load())
		})
		defer w.Close()
		w.Need()
		time.Sleep(periodic.Interval + 1)
		synctest.Wait()
		assert.EqualValues(t, 1, checks.Load())
		time.Sleep(time.Hour - 2)
		assert.EqualValues(t, 1, checks.Load())
		time.Sleep(2 * time.Nanosecond)
		synctest.Wait()
		assert.EqualValues(t, 2, checks.Load())
		next.Store(0)
		w.Need()
		time.Sleep(periodic.Interval + 1)
		synctest.Wait()
		assert.EqualValues(t, 3, checks.Load())
		time.Sleep(2 * time.Hour)
		assert.EqualValues(t, 3, checks.Load())
	})
}

// Close waits for a check that is in progress. No check follows.
func TestCloseWaitsForTheCheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w periodic.Check
		checks := 0
		w.Init(func() time.Duration {
			time.Sleep(time.Minute)
			checks++
			return periodic.Interval
		})
		w.Need()
		time.Sleep(periodic.Interval + 1)
		synctest.Wait()
		w.Close()
		assert.NotZero(t, checks)
		checks = 0
		w.Need()
		time.Sleep(time.Hour)
		assert.Zero(t, checks)
		w.Close()
	})
}
