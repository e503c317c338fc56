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
}
