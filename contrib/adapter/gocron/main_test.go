package gocronlock_test

import (
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// skewed is a clock that is ahead.
type skewed struct {
	clockwork.Clock
	by time.Duration
}

func (s skewed) Now() time.Time { return s.Clock.Now().Add(s.by) }

// newScheduler returns a scheduler that is shut down at the end of the test or bubble.
func newScheduler(t *testing.T, options ...gocron.SchedulerOption) gocron.Scheduler {
	s, err := gocron.NewScheduler(append(options, gocron.WithLocation(time.UTC))...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = s.Shutdown() })
	return s
}

// add adds a job to a scheduler and starts it.
func add(t *testing.T, s gocron.Scheduler, when gocron.JobDefinition, job any, options ...gocron.JobOption) {
	_, err := s.NewJob(when, gocron.NewTask(job), append(options, gocron.WithName("report"))...)
	require.NoError(t, err)
	s.Start()
}
