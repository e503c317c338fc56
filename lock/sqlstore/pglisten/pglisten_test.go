package pglisten_test

import (
	"context"
	"database/sql"
	"log/slog"
	"sync"
	"testing"
	"time"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/internal/testprocess"
	"github.com/leasewheel/leasewheel/internal/testsql"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/sqlstore"
	"github.com/leasewheel/leasewheel/lock/sqlstore/pglisten"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// open returns a store whose waiters practically never poll, with a Listener.
func open(t *testing.T, server *testsql.Postgres) (*sqlstore.Store, *pglisten.Listener) {
	t.Helper()
	db, err := sql.Open("pgx", server.DSN())
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	listener, err := pglisten.New(server.DSN(), nil)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, listener.Close()) })
	require.NoError(t, sqlstore.CreateSchema(t.Context(), db, sqlstore.PostgreSQL(), nil))
	store, err := sqlstore.New(db, sqlstore.PostgreSQL(), &sqlstore.Options{Listener: listener, PollInterval: time.Hour})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, store.Close()) })
	connected(t, listener)
	return store, listener
}

func connected(t *testing.T, l *pglisten.Listener) {
	t.Helper()
	require.Eventually(t, func() bool { return l.Channel() != "" }, time.Minute, time.Millisecond, "the Listener is connected")
}

// waiting starts a Wait and returns when it knows that it is in the queue. Before that, a server that is
// away fails it at its second request.
func waiting(t *testing.T, s *sqlstore.Store, key, owner string) <-chan driver.Lease {
	t.Helper()
	granted, queued := make(chan driver.Lease, 1), make(chan struct{})
	go func() {
		l, err := s.Wait(t.Context(), driver.Request{Key: key, Owner: owner, TTL: time.Minute}, sync.OnceFunc(func() { close(queued) }))
		assert.NoError(t, err)
		granted <- l
	}()
	select {
	case <-queued:
	case <-time.After(time.Minute):
		require.Fail(t, "Wait is not in the queue")
	}
	return granted
}

func acquire(t *testing.T, s *sqlstore.Store, key, owner string) driver.Lease {
	t.Helper()
	l, err := s.Acquire(t.Context(), driver.Request{Key: key, Owner: owner, TTL: time.Minute})
	require.NoError(t, err)
	return l
}

// soon is less than a third of a place: a lock that is handed over by then was not polled for.
const soon = 3 * time.Second

func TestAWaiterOfAnotherProcessIsNotified(t *testing.T) {
	server, err := testsql.LaunchPostgres()
	testprocess.Check(t, err)
	defer server.Close()
	t.Run("all", func(t *testing.T) {
		holder, _ := open(t, server)
		waiter, _ := open(t, server)
		for range 5 {
			l := acquire(t, holder, "k", "holder:1")
			granted := waiting(t, waiter, "k", "waiter:1")
			require.NoError(t, holder.Release(t.Context(), l))
			select {
			case l = <-granted:
			case <-time.After(soon):
				require.Fail(t, "the waiter was not notified")
			}
			require.NoError(t, waiter.Release(t.Context(), l))
		}
	})
}

func TestAListenerConnectsAgain(t *testing.T) {
	server, err := testsql.LaunchPostgres()
	testprocess.Check(t, err)
	defer server.Close()
	t.Run("all", func(t *testing.T) {
		holder, _ := open(t, server)
		waiter, listener := open(t, server)
		l := acquire(t, holder, "k", "holder:1")
		granted := waiting(t, waiter, "k", "waiter:1")
		server.Kill()
		require.Eventually(t, func() bool { return listener.Channel() == "" }, time.Minute, time.Millisecond)
		require.NoError(t, server.Start())
		connected(t, listener)
		require.Eventually(t, func() bool {
			err := holder.Release(context.Background(), l)
			if err != nil {
				return assert.ObjectsAreEqual(driver.ErrNotHeld, err) // an earlier try had no answer
			}
			return true
		}, time.Minute, 10*time.Millisecond)
		select {
		case <-granted:
		case <-time.After(time.Minute):
			require.Fail(t, "the waiter did not get the lock")
		}
	})
}

// TestAListenerBehindAPooler polls, because PgBouncer in transaction mode passes no notification on, and says so once.
func TestAListenerBehindAPooler(t *testing.T) {
	server, err := testsql.LaunchPostgres()
	testprocess.Check(t, err)
	defer server.Close()
	bouncer, err := testsql.LaunchBouncer(server)
	testprocess.Check(t, err)
	defer bouncer.Close()
	logged := make(chan string, 100)
	listener, err := pglisten.New(bouncer.DSN(), &pglisten.Options{Logger: slog.New(slog.NewTextHandler(lines(logged), nil))})
	require.NoError(t, err)
	defer func() { assert.NoError(t, listener.Close()) }()
	select {
	case line := <-logged:
		assert.Contains(t, line, "a notification to itself has not arrived")
	case <-time.After(time.Minute):
		require.Fail(t, "nothing was logged")
	}
	assert.Empty(t, listener.Channel())
}

// lines is an output whose lines arrive on a channel.
type lines chan string

func (l lines) Write(p []byte) (int, error) {
	l <- string(p)
	return len(p), nil
}

// writer is an output that blocks.
type writer struct{ called, end chan struct{} }

func (w writer) Write(p []byte) (int, error) {
	close(w.called)
	<-w.end
	return len(p), nil
}

func TestCloseDoesNotWaitForTheLogger(t *testing.T) {
	w := writer{make(chan struct{}), make(chan struct{})}
	listener, err := pglisten.New("postgres://127.0.0.1:1/", &pglisten.Options{Logger: slog.New(slog.NewTextHandler(w, nil))})
	require.NoError(t, err)
	<-w.called
	require.NoError(t, listener.Close())
	close(w.end)
}

func TestABadDSN(t *testing.T) {
	_, err := pglisten.New("postgres://u:secret@h:port/", nil)
	require.Error(t, err)
	assert.NotContains(t, err.Error(), "secret")
}
