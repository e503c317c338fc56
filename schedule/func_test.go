package schedule_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/schedule"
)

func TestANilSchedulerIsAnError(t *testing.T) {
	timer, err := schedule.AfterFunc(nil, time.Second, func() {})
	require.EqualError(t, err, "schedule: nil scheduler")
	assert.Zero(t, timer)
	timer, err = schedule.Every(nil, time.Second, func() {})
	require.EqualError(t, err, "schedule: nil scheduler")
	assert.Zero(t, timer)
	var none *broken // a constructor returns it with an error
	_, err = schedule.AfterFunc(none, time.Second, func() {})
	require.EqualError(t, err, "schedule: nil scheduler")
	_, err = schedule.Every(none, time.Second, func() {})
	require.EqualError(t, err, "schedule: nil scheduler")
}

// broken is an engine whose methods panic if it is a nil pointer.
type broken struct{ schedule.Scheduler }
