package gocronlock_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/jonboulle/clockwork"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/lock/redisstore"
)

var shared testredis.Shared

func TestMain(m *testing.M) { goleak.VerifyTestMain(shared.Around(m)) }

// patience bounds what happens in real time.
const patience = 25 * time.Second

// connection is the store of one process. Its Close leaves the store to the other processes.
type connection struct{ *memstore.Store }

func (connection) Shutdown(context.Context) error { return nil }

// newClient returns a client that is closed at the end of the test or bubble.
func newClient(t *testing.T, store driver.Store, terms lock.Terms) *lock.Client {
	client, err := lock.New(store, &lock.Options{Terms: terms, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close(context.Background()) })
	return client
}

// processes returns a function that makes clients of a server, each as in a process of its own.
// Their keys are those of this run of the test alone.
func processes(t *testing.T, server *testredis.Server, terms lock.Terms) func() *lock.Client {
	prefix := fmt.Sprintf("%s-%d:", t.Name(), time.Now().UnixNano())
	return func() *lock.Client {
		store, err := redisstore.New(server.Client(t), &redisstore.Options{Prefix: prefix})
		require.NoError(t, err)
		return newClient(t, store, terms)
	}
}

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
