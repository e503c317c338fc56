package recipes_test

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/hibiken/asynq"
	"github.com/pressly/goose/v3"
	"github.com/riverqueue/river"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/leasewheel/leasewheel/contrib/adapter/internal/adaptertest"
	"github.com/leasewheel/leasewheel/contrib/adapter/recipes"
	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/lock/redisstore"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestSchedule runs the scheduler of asynq in two processes. The second one starts its own when
// the first one has stopped.
func TestSchedule(t *testing.T) {
	server := testredis.Start(t)
	rdb := asynq.RedisClientOpt{Addr: server.Addr()}
	started := make(chan string, 2)
	run := func(name string) (stop func() error) {
		store, err := redisstore.New(server.Client(t), nil)
		require.NoError(t, err)
		election := adaptertest.NewClient(t, store).Election("scheduler", name)
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
		client := adaptertest.NewClient(t, store)
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
		client := adaptertest.NewClient(t, store)
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

// TestMigrate runs the migrations of one database in two processes. The second one waits for the
// first one, and stops when its own lock is lost.
func TestMigrate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := sql.Open("sqlite", "file:"+filepath.Join(t.TempDir(), "app.db"))
		require.NoError(t, err)
		defer func() { _ = db.Close() }()
		provider := func(migrations ...*goose.Migration) *goose.Provider {
			p, err := goose.NewProvider(goose.DialectSQLite3, db, nil, goose.WithGoMigrations(migrations...), goose.WithDisableGlobalRegistry(true))
			require.NoError(t, err)
			return p
		}
		store := memstore.New()
		tables := 0
		first := goose.NewGoMigration(1, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
			tables++
			time.Sleep(time.Hour) // longer than any TTL
			_, err := tx.ExecContext(ctx, "CREATE TABLE first (n INTEGER)")
			return err
		}}, nil)
		var processes sync.WaitGroup
		for range 2 {
			l := adaptertest.NewClient(t, store).Mutex("migrations")
			processes.Go(func() { assert.NoError(t, recipes.Migrate(t.Context(), l, provider(first))) })
		}
		processes.Wait()
		assert.Equal(t, 1, tables)

		second := goose.NewGoMigration(2, &goose.GoFunc{RunTx: func(ctx context.Context, tx *sql.Tx) error {
			_, err := tx.ExecContext(ctx, "CREATE TABLE second (n INTEGER)")
			assert.NoError(t, err)
			store.Delete("migrations")
			<-ctx.Done()
			return context.Cause(ctx)
		}}, nil)
		both := provider(first, second)
		assert.ErrorIs(t, recipes.Migrate(t.Context(), adaptertest.NewClient(t, store).Mutex("migrations"), both), lock.ErrLost)
		version, err := both.GetDBVersion(t.Context())
		require.NoError(t, err)
		assert.EqualValues(t, 1, version)
		_, err = db.ExecContext(t.Context(), "SELECT n FROM second")
		assert.ErrorContains(t, err, "no such table")
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
