package check

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testprocess"
	"github.com/leasewheel/leasewheel/internal/testsql"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/sqlstore"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/verify/histories"
)

// faultyServer is a database server that a test can break.
type faultyServer interface {
	Kill()
	Start() error
	Pause()
	Continue()
	Close()
	Proxy() (*testsql.Proxy, error)
}

// faultyDatabases are the servers of TestFaults.
var faultyDatabases = []struct {
	name, driver string
	dialect      sqlstore.Dialect
	params       []string // so that each side gives up a connection to the other that hangs
	launch       func() (faultyServer, error)
}{
	{"PostgreSQL", "pgx", sqlstore.PostgreSQL(), []string{"connect_timeout=2"}, func() (faultyServer, error) { return testsql.LaunchPostgres() }},
	{"MariaDB", "mysql", sqlstore.MySQL(), []string{"timeout=2s"}, func() (faultyServer, error) { return testsql.LaunchMariaDB() }},
}

// faults are what happens to the server and to the links of the clients, one after another.
var faults = []struct {
	name string
	run  func(t *testing.T, l *histories.Load, s faultyServer, links []*testsql.Proxy)
}{
	{"the server crashes and starts again", func(t *testing.T, _ *histories.Load, s faultyServer, _ []*testsql.Proxy) {
		s.Kill()
		require.NoError(t, s.Start())
	}},
	{"the server is down for longer than a TTL", func(t *testing.T, l *histories.Load, s faultyServer, _ []*testsql.Proxy) {
		s.Kill()
		l.Told()
		require.NoError(t, s.Start())
	}},
	{"the server hangs", func(_ *testing.T, l *histories.Load, s faultyServer, _ []*testsql.Proxy) {
		s.Pause()
		defer s.Continue()
		l.Told()
	}},
	{"the connections break", func(_ *testing.T, _ *histories.Load, _ faultyServer, links []*testsql.Proxy) {
		for _, p := range links {
			p.Cut()
		}
	}},
	{"the network of one client drops everything", func(_ *testing.T, l *histories.Load, _ faultyServer, links []*testsql.Proxy) {
		l.Renewed(0)
		links[0].Block() // the other client takes over
		defer links[0].Unblock()
		l.Progress()
	}},
}

// TestFaults checks the history of locks under load while the server and the network fail, that
// holders are told, and that the load goes on after each fault.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, db := range faultyDatabases {
		for _, pessimistic := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/pessimistic=%v", db.name, pessimistic), func(t *testing.T) {
				t.Parallel()
				s, err := db.launch()
				testprocess.Check(t, err)
				t.Cleanup(s.Close)
				var links []*testsql.Proxy
				var clients []*lock.Client
				for range 2 {
					link, err := s.Proxy()
					require.NoError(t, err)
					t.Cleanup(link.Close)
					links = append(links, link)
					params := db.params
					if db.driver == "mysql" {
						params = append(slices.Clone(params), idle(t, "2"))
					}
					pool, err := sql.Open(db.driver, link.DSN(params...))
					require.NoError(t, err)
					t.Cleanup(func() { assert.NoError(t, pool.Close()) })
					clients = append(clients, newFaultyClient(t, pool, db.dialect, pessimistic))
				}
				l := histories.NewLoad(t, faultTTL, clients...)
				for _, f := range faults {
					l.Progress()
					t.Log(f.name)
					l.Fault(func() { f.run(t, l, s, links) })
				}
				l.Progress()
				l.Stop()
			})
		}
	}
}

// TestFaultsOfSQLite is TestFaults for a file, which another writer keeps from the store.
func TestFaultsOfSQLite(t *testing.T) {
	t.Parallel()
	for _, pessimistic := range []bool{false, true} {
		t.Run(fmt.Sprintf("pessimistic=%v", pessimistic), func(t *testing.T) {
			t.Parallel()
			dsn := "file:" + filepath.Join(t.TempDir(), "locks.db") + "?_pragma=busy_timeout(100)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)"
			var pools []*sql.DB
			var clients []*lock.Client
			for range 2 {
				pool, err := sql.Open("sqlite", dsn)
				require.NoError(t, err)
				t.Cleanup(func() { assert.NoError(t, pool.Close()) })
				pools = append(pools, pool)
				clients = append(clients, newFaultyClient(t, pool, sqlstore.SQLite(), pessimistic))
			}
			l := histories.NewLoad(t, faultTTL, clients...)
			l.Progress()
			l.Fault(func() {
				writer, err := pools[0].Conn(t.Context())
				require.NoError(t, err)
				defer func() { assert.NoError(t, writer.Close()) }()
				require.Eventually(t, func() bool {
					_, err := writer.ExecContext(t.Context(), "BEGIN IMMEDIATE")
					return err == nil
				}, time.Minute, time.Millisecond)
				l.Told()
				_, err = writer.ExecContext(t.Context(), "ROLLBACK")
				require.NoError(t, err)
			})
			l.Progress()
			l.Stop()
		})
	}
}

const faultTTL = 2 * time.Second

// newFaultyClient returns a client whose requests end soon if the server does not answer.
func newFaultyClient(t *testing.T, pool *sql.DB, d sqlstore.Dialect, pessimistic bool) *lock.Client {
	t.Helper()
	require.NoError(t, sqlstore.CreateSchema(t.Context(), pool, d, nil))
	store, err := sqlstore.New(pool, d, &sqlstore.Options{Pessimistic: pessimistic, Timeout: 1500 * time.Millisecond, PollInterval: 10 * time.Millisecond})
	require.NoError(t, err)
	client, err := lock.New(store, &lock.Options{Terms: lock.Terms{TTL: faultTTL}, Logger: slog.New(slog.DiscardHandler)})
	require.NoError(t, err)
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
		defer cancel()
		assert.NoError(t, client.Close(ctx))
	})
	return client
}

// TestAStandbyIsPromoted grants a lock while the standby is cut off, ends the primary and promotes the standby. If the
// standby is synchronous, nobody has been told of the grant. If it is not, the grant is lost: the next holder has a
// higher token, and the first one learns it at its next renewal.
func TestAStandbyIsPromoted(t *testing.T) {
	t.Parallel()
	for _, synchronous := range []bool{false, true} {
		t.Run(fmt.Sprintf("PostgreSQL/synchronous=%v", synchronous), func(t *testing.T) {
			t.Parallel()
			primary, err := testsql.LaunchPostgres()
			testprocess.Check(t, err)
			t.Cleanup(primary.Close)
			link, err := primary.Proxy()
			require.NoError(t, err)
			t.Cleanup(link.Close)
			standby, err := primary.Standby(link.Addr())
			require.NoError(t, err)
			t.Cleanup(standby.Close)
			on := func(p *testsql.Postgres) *sql.DB { return openAs(t, "pgx", p.DSN("connect_timeout=10")) }
			exec := func(p *testsql.Postgres, text string) {
				_, err := on(p).ExecContext(t.Context(), text)
				require.NoError(t, err)
			}
			state := "async"
			if synchronous {
				exec(primary, "ALTER SYSTEM SET synchronous_standby_names = standby")
				exec(primary, "SELECT pg_reload_conf()")
				state = "sync"
			}
			status := on(primary)
			require.Eventually(t, func() bool {
				var is string
				return status.QueryRowContext(t.Context(), "SELECT sync_state FROM pg_stat_replication").Scan(&is) == nil && is == state
			}, time.Minute, 20*time.Millisecond)

			dsn := fmt.Sprintf("postgres://postgres@%s,%s/postgres?sslmode=disable&connect_timeout=10&target_session_attrs=read-write", primary.Addr(), standby.Addr())
			s := (&database{openAs(t, "pgx", dsn), sqlstore.PostgreSQL(), ""}).store(t, sqlstore.Options{Timeout: 5 * time.Second})
			require.NoError(t, sqlstore.CreateSchema(t.Context(), s.of.db, sqlstore.PostgreSQL(), nil))
			kept := acquire(t, s, request("kept"))
			require.Eventually(t, func() bool {
				var all bool
				err := status.QueryRowContext(t.Context(), "SELECT replay_lsn >= pg_current_wal_lsn() FROM pg_stat_replication").Scan(&all)
				return err == nil && all
			}, time.Minute, 20*time.Millisecond)
			link.Block()
			r := request("k")
			first, err := s.Acquire(t.Context(), r)
			if synchronous {
				require.ErrorContains(t, err, "no answer within")
			} else {
				require.NoError(t, err)
			}
			primary.Kill()
			exec(standby, "SELECT pg_promote()")
			out := make([]renewal.Outcome, 1)
			require.Eventually(t, func() bool { return s.Renew(t.Context(), []driver.Lease{kept}, out) == nil }, time.Minute, 20*time.Millisecond)
			assert.Equal(t, renewal.Renewed, out[0])
			next := acquire(t, s, request("k"))
			if !synchronous {
				first.Request = r
				assert.Greater(t, next.Token, first.Token)
				require.NoError(t, s.Renew(t.Context(), []driver.Lease{first}, out))
				assert.True(t, out[0].IsLost())
			}
		})
	}
}
