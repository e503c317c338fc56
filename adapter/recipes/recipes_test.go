package recipes_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/hibiken/asynq"
	"github.com/riverqueue/river"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/adapter/recipes"
	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/lock/redisstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newClient returns a client that is closed at the end of the test or bubble.
func newClient(t *testing.T, store driver.Store) *lock.Client {
	client, err := lock.New(store, &lock.Options{Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close(context.Background()) })
	return client
}

// TestTheGuideQuotesTheRecipes checks that the guide has each recipe as it is here.
func TestTheGuideQuotesTheRecipes(t *testing.T) {
	guide, err := os.ReadFile("../../docs/GUIDE.md")
	require.NoError(t, err)
	for _, file := range []string{"asynq.go", "river.go", "watermill.go"} {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		_, recipe, found := strings.Cut(string(text), "\nfunc ")
		require.True(t, found)
		assert.Contains(t, string(guide), "func "+recipe, file)
	}
}

// TestSchedule runs the scheduler of asynq in two processes. The second one starts its own when
// the first one has stopped.
func TestSchedule(t *testing.T) {
	server := testredis.Start(t)
	rdb := asynq.RedisClientOpt{Addr: server.Addr()}
	started := make(chan string, 2)
	run := func(name string) (stop func() error) {
		store, err := redisstore.New(server.Client(t), nil)
		require.NoError(t, err)
		election := newClient(t, store).Election("scheduler", name)
		ctx, cancel := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() {
			ended <- recipes.Schedule(ctx, election, rdb, func(s *asynq.Scheduler) error {
				_, err := s.Register("@every 1h", asynq.NewTask("report", nil))
				started <- name
				return err
			})
		}()
		return func() error {
			cancel()
			return receive(t, ended)
		}
	}
	stopA := run("a")
	assert.Equal(t, "a", receive(t, started))
	stopB := run("b")
	assert.Empty(t, started)
	assert.ErrorIs(t, stopA(), context.Canceled)
	assert.Equal(t, "b", receive(t, started))
	assert.ErrorIs(t, stopB(), context.Canceled)
}

func TestWorkAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		client := newClient(t, store)
		failed := errors.New("failed")
		work := func(_ context.Context, held *lock.Held) error {
			assert.True(t, held.Valid())
			return failed
		}
		assert.Equal(t, failed, recipes.WorkAlone(t.Context(), client.Mutex("k"), work))
		_, err := client.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		var snooze *river.JobSnoozeError
		require.ErrorAs(t, recipes.WorkAlone(t.Context(), client.Mutex("k"), work), &snooze)
		assert.Equal(t, 10*time.Second, snooze.Duration)
	})
}

func TestOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		client := newClient(t, store)
		oneAtATime := recipes.OneAtATime(client, func(m *message.Message) string { return m.Metadata.Get("order") })
		m := message.NewMessage("1", nil)
		m.Metadata.Set("order", "7")
		before := m.Context()
		handler := func(m *message.Message) ([]*message.Message, error) {
			_, err := client.Mutex("7").TryLock(t.Context())
			assert.ErrorIs(t, err, lock.ErrNotAcquired)
			return message.Messages{m}, nil
		}
		produced, err := oneAtATime(handler)(m)
		assert.NoError(t, err)
		assert.Len(t, produced, 1)
		assert.Equal(t, before, m.Context())
		assert.Zero(t, store.Len())

		_, err = oneAtATime(func(m *message.Message) ([]*message.Message, error) {
			store.Delete("7")
			<-m.Context().Done()
			return nil, nil
		})(m)
		assert.ErrorIs(t, err, lock.ErrLost)
	})
}

// receive returns the next value of a channel.
func receive[T any](t *testing.T, from <-chan T) T {
	t.Helper()
	select {
	case v := <-from:
		return v
	case <-time.After(25 * time.Second):
		require.FailNow(t, "nothing was sent")
		panic("unreachable")
	}
}
