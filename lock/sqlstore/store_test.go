package sqlstore

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"net"
	"os"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// These tests need no database. The others are in the module check.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// request returns a request for a key.
func request(key string) driver.Request {
	return driver.Request{Key: key, Owner: "client:1", TTL: time.Minute}
}

// unused returns a pool that fails a test if it dials.
func unused(t *testing.T) *sql.DB {
	t.Helper()
	db := sql.OpenDB(dialTimeout{func() { assert.Fail(t, "a request was sent") }})
	t.Cleanup(func() { assert.NoError(t, db.Close()) })
	return db
}

func TestBadOptionsAreRefused(t *testing.T) {
	db := unused(t)
	for _, c := range []struct {
		dialect Dialect
		options Options
		names   string
	}{
		{Dialect{}, Options{}, "Dialect"},
		{SQLite(), Options{Table: "a; DROP TABLE users"}, "Options.Table"},
		{SQLite(), Options{Table: "Upper"}, "Options.Table"},
		{SQLite(), Options{Table: "app.locks"}, "Options.Table"},
		{PostgreSQL(), Options{Table: strings.Repeat("x", 41)}, "Options.Table"},
		{PostgreSQL(), Options{SynchronousCommit: "off"}, "Options.SynchronousCommit"},
		{SQLite(), Options{SynchronousCommit: "on"}, "Options.SynchronousCommit"},
		{SQLite(), Options{Timeout: -1}, "Options.Timeout"},
		{SQLite(), Options{PollInterval: 1}, "Options.PollInterval"},
		{SQLite(), Options{KeepTokens: time.Second}, "Options.KeepTokens"},
	} {
		_, err := New(db, c.dialect, &c.options)
		require.ErrorContains(t, err, c.names)
		_, err = Schema(c.dialect, &c.options)
		require.ErrorContains(t, err, c.names)
	}
	_, err := New(nil, SQLite(), nil)
	require.ErrorContains(t, err, "*sql.DB")
}

func TestBadRequestsAreRefused(t *testing.T) {
	s, err := New(unused(t), SQLite(), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	for _, c := range []struct {
		change func(r *driver.Request)
		want   string
	}{
		{func(r *driver.Request) { r.Key = "" }, "bad key"},
		{func(r *driver.Request) { r.Key = strings.Repeat("k", driver.MaxKeyLen+1) }, "bad key"},
		{func(r *driver.Request) { r.TTL = 0 }, "bad TTL"},
		{func(r *driver.Request) { r.TTL = driver.MaxTTL + 1 }, "bad TTL"},
		{func(r *driver.Request) { r.Owner = "" }, "owner"},
		{func(r *driver.Request) { r.Owner = keptOwner }, "owner"},
		{func(r *driver.Request) { r.Attrs = &driver.Attrs{Metadata: strings.Repeat("m", 1025)} }, "metadata"},
	} {
		r := request("k")
		c.change(&r)
		_, err := s.Acquire(t.Context(), r)
		require.ErrorContains(t, err, c.want)
		_, err = s.Wait(t.Context(), r, func() {})
		require.ErrorContains(t, err, c.want)
		_, err = s.Import(driver.Lease{Request: r, Token: 1})
		require.ErrorContains(t, err, c.want)
	}
	require.ErrorIs(t, s.Release(t.Context(), driver.Lease{Request: driver.Request{Key: "k"}}), driver.ErrNotHeld)
}

// deafConnector is a driver that does not notice the end of a ctx.
type deafConnector struct{ blocked chan struct{} }

func (c deafConnector) Connect(context.Context) (sqldriver.Conn, error) {
	<-c.blocked
	return nil, errors.New("refused")
}

func (deafConnector) Driver() sqldriver.Driver { return nil }

// TestADriverThatIgnoresContexts checks that calls return all the same, and send nothing later.
func TestADriverThatIgnoresContexts(t *testing.T) {
	c := deafConnector{make(chan struct{})}
	db := sql.OpenDB(c)
	defer func() { _ = db.Close() }()
	s, err := New(db, PostgreSQL(), nil)
	require.NoError(t, err)
	gone := errors.New("the caller is gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.Acquire(ctx, request("k"))
		done <- err
	}()
	cancel(gone)
	err = <-done
	require.ErrorIs(t, err, gone)
	if !errors.Is(err, driver.ErrNotSent) {
		require.NotErrorIs(t, err, driver.ErrUnavailable, "the ctx ended before the call began")
	}

	s.options.Timeout = time.Millisecond
	_, err = s.Acquire(t.Context(), request("k"))
	require.ErrorIs(t, err, driver.ErrNotSent)
	ended, end := context.WithCancelCause(t.Context())
	end(gone)
	require.ErrorIs(t, s.Shutdown(ended), gone, "the driver has not returned")
	close(c.blocked)
	require.NoError(t, s.Close())
}

// lateContext has a deadline that has passed, and ends later.
type lateContext struct{ context.Context }

func (lateContext) Deadline() (time.Time, bool) { return time.Now().Add(-time.Second), true }

// dialTimeout is a driver whose dials end by their deadline.
type dialTimeout struct{ dialled func() }

func (d dialTimeout) Connect(context.Context) (sqldriver.Conn, error) {
	d.dialled()
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
}

func (dialTimeout) Driver() sqldriver.Driver { return nil }

// TestADialThatEndsByTheDeadline returns the cause of the ctx, even if the dial ends before the ctx.
func TestADialThatEndsByTheDeadline(t *testing.T) {
	gone := errors.New("the caller is gone")
	for name, f := range map[string]func(s *Store, ctx context.Context) error{
		"Acquire": func(s *Store, ctx context.Context) error { _, err := s.Acquire(ctx, request("k")); return err },
		"Wait":    func(s *Store, ctx context.Context) error { _, err := s.Wait(ctx, request("k"), func() {}); return err },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				db := sql.OpenDB(dialTimeout{func() { time.AfterFunc(time.Millisecond, func() { cancel(gone) }) }})
				defer func() { _ = db.Close() }()
				s, err := New(db, PostgreSQL(), nil)
				require.NoError(t, err)
				defer func() { require.NoError(t, s.Close()) }()
				require.ErrorIs(t, f(s, lateContext{ctx}), gone)
			})
		})
	}
}

// noCommit is a driver that executes every statement but COMMIT. It is also its connections and prepared statements.
type noCommit struct{}

func (d noCommit) Connect(context.Context) (sqldriver.Conn, error) { return d, nil }
func (noCommit) Driver() sqldriver.Driver                          { return nil }
func (d noCommit) Prepare(string) (sqldriver.Stmt, error)          { return d, nil }
func (noCommit) Begin() (sqldriver.Tx, error)                      { return nil, errors.ErrUnsupported }
func (noCommit) Close() error                                      { return nil }
func (noCommit) NumInput() int                                     { return -1 }
func (noCommit) Exec([]sqldriver.Value) (sqldriver.Result, error) {
	return sqldriver.RowsAffected(1), nil
}

func (noCommit) Query([]sqldriver.Value) (sqldriver.Rows, error) { return nil, errors.ErrUnsupported }

func (noCommit) ExecContext(_ context.Context, text string, _ []sqldriver.NamedValue) (sqldriver.Result, error) {
	if text == "COMMIT" {
		return nil, errors.New("the disk is full")
	}
	return sqldriver.RowsAffected(1), nil
}

func TestARenewalThatIsNotCommittedIsNone(t *testing.T) {
	db := sql.OpenDB(noCommit{})
	defer func() { _ = db.Close() }()
	s, err := New(db, SQLite(), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, s.Close()) }()
	out := []renewal.Outcome{renewal.Unknown}
	err = s.Renew(t.Context(), []driver.Lease{{Request: request("k"), Token: 1}}, out)
	require.ErrorContains(t, err, "the disk is full")
	assert.Equal(t, renewal.Unknown, out[0])
}

// sqliteError is an error of modernc.org/sqlite, whose code has the primary one in its lowest byte.
type sqliteError int

func (e sqliteError) Error() string { return "constraint failed" }
func (e sqliteError) Code() int     { return int(e) }

// TestABusySQLiteIsAskedAgain has the errors of two drivers, one of which has no method for the code.
func TestABusySQLiteIsAskedAgain(t *testing.T) {
	d := SQLite().dialect
	for _, err := range []error{
		sqliteError(5), sqliteError(517), sqliteError(6), sqliteError(262), errors.New("database is locked"),
		errors.New("database table is locked: leasewheel_locks"), errors.New("database schema is locked: main"),
	} {
		assert.Equal(t, conflict, d.faultOf(err), "%v", err)
	}
	for _, err := range []error{sqliteError(19), errors.New("no such table: leasewheel_locks")} {
		assert.NotEqual(t, conflict, d.faultOf(err), "%v", err)
	}
}

// TestThePaceOfPolls follows the reads of a waiter: of a lock that is held for long, of one that is handed over every 20 ms, and
// after a step of the clock.
func TestThePaceOfPolls(t *testing.T) {
	s := &Store{options: Options{PollInterval: 100 * time.Millisecond}}
	w := &waiter{request: request("k"), ahead: 2}
	assert.Equal(t, 300*time.Millisecond, s.pollEvery(w), "nothing is known")
	w.sees(lockState{token: 1_000_000, age: 60_000_000})
	for w.ahead = range 5 {
		assert.Equal(t, time.Duration(w.ahead+1)*100*time.Millisecond, s.pollEvery(w), "held for a minute")
	}

	w = &waiter{request: request("k"), ahead: 10}
	assert.False(t, w.sees(lockState{token: 1_000_000, age: 5000}), "the first read")
	assert.True(t, w.sees(lockState{token: 1_080_000, age: 5000}))
	s.moved([]*waiter{w}, map[string]int{w.request.Owner: 6})
	assert.Equal(t, 20*time.Millisecond, w.pace)
	assert.Equal(t, 25*time.Millisecond, s.pollEvery(w))
	w.ahead = 0
	assert.Equal(t, minPace, s.pollEvery(w))
	w.sees(lockState{token: 1_080_000, age: -1})
	assert.Equal(t, 100*time.Millisecond, s.pollEvery(w), "the clock was set back")
}
