package renewal_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/internal/seam"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/wheel"
)

// stepWall steps the wall clock against the monotonic one for the rest of a test.
func stepWall(t *testing.T, d time.Duration) {
	seam.StepWall(d)
	t.Cleanup(func() { seam.StepWall(-d) })
}

// A host suspended for longer than the lease: its monotonic clock, and so every
// timer, stood still.
func TestASuspendedHostIsToldOnWaking(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		var log strings.Builder
		dog := newDog(t, e, new(store), &renewal.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		entry := register(t, dog, "a")
		done := entry.Done()
		settle(time.Minute)
		stepWall(t, 40*time.Second)
		assert.False(t, entry.Valid(), "right at once, by the wall clock")
		settle(time.Second + slack)
		assert.True(t, closed(done), "told within a second")
		assert.Equal(t, renewal.Expired, reasonOf(t, entry.Err()))
		assert.Contains(t, log.String(), "wall clock")
	})
}

// A shorter suspension leaves some of the lease: it is renewed at once, for the
// timers are late by the time of the suspension.
func TestAShortSuspensionRenewsAtOnce(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		s := new(store)
		dog := newDog(t, e, s, nil)
		entry := register(t, dog, "a")
		for !time.Now().Before(entry.Deadline().Add(-life + 2*time.Second)) { // just renewed, or just granted
			settle(100 * time.Millisecond)
		}
		before := len(s.seen())
		stepWall(t, 25*time.Second)
		assert.True(t, entry.Valid())
		settle(time.Second + slack)
		assert.Len(t, s.seen(), before+1)
		settle(time.Minute)
		assert.NoError(t, entry.Err())
	})
}

func TestAWallClockSteppedBackEndsNothing(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		s := &store{answer: hang}
		dog := newDog(t, e, s, &renewal.Options{Failures: -1})
		entry := register(t, dog, "a")
		settle(time.Second)
		stepWall(t, -time.Hour)
		settle(life - time.Second - 1)
		assert.True(t, entry.Valid())
		settle(1)
		assert.False(t, entry.Valid(), "the monotonic clock decides: it leaves less")
	})
}

func TestClocksAreComparedOnlyWhileLeasesAreHeld(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		dog := newDog(t, e, new(store), nil)
		for range 3 { // and again, after there were none
			entry := register(t, dog, "a")
			settle(5 * time.Second)
			entry.Stop()
			settle(2 * time.Second)
			assert.Zero(t, pending(e), "no timer is left")
		}
	})
}

func pending(e engine) int {
	switch e := e.(type) {
	case *wheel.Wheel:
		return e.Stats().Pending
	case *heapqueue.Scheduler:
		return e.Stats().Pending
	}
	panic("an engine unknown to this test")
}
