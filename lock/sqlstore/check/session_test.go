package check

import (
	"context"
	"database/sql"
	"fmt"
	"net"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testprocess"
	"github.com/leasewheel/leasewheel/internal/testsql"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/sqlstore"
	"github.com/leasewheel/leasewheel/renewal"
)

// inAll executes statements in all sessions that a pool can have, as the role of the user, the name of the data
// source or another client of a pooler does.
func inAll(t *testing.T, db *sql.DB, texts ...string) {
	t.Helper()
	const most = 4
	db.SetMaxOpenConns(most)
	db.SetMaxIdleConns(most)
	var conns []*sql.Conn
	for range most {
		c, err := db.Conn(t.Context())
		require.NoError(t, err)
		for _, text := range texts {
			if _, err = c.ExecContext(t.Context(), text); err != nil && noSuchSetting.MatchString(err.Error()) {
				require.NoError(t, c.Close())
				t.Skip("this version has no such setting:", err)
			}
			require.NoError(t, err, text)
		}
		conns = append(conns, c)
	}
	for _, c := range conns {
		require.NoError(t, c.Close())
	}
}

// noSuchSetting matches the errors of MySQL, where MariaDB has more settings, and of PostgreSQL, which has renamed one.
var noSuchSetting = regexp.MustCompile(`HY000|42000|42704`)

// harmless are the settings of a session that might change what a statement means or returns, and must not.
var harmless = map[string][]string{
	"PostgreSQL": {
		"search_path = ''", "search_path = pg_temp", "bytea_output = escape", "standard_conforming_strings = off", "DateStyle = 'German'",
		"IntervalStyle = sql_standard", "TimeZone = 'America/St_Johns'", "extra_float_digits = -10", "array_nulls = off", "transform_null_equals = on",
		"client_encoding = 'LATIN1'", "default_transaction_isolation = 'repeatable read'", "default_transaction_isolation = 'serializable'",
		"default_transaction_deferrable = on", "plan_cache_mode = force_generic_plan", "enable_indexscan = off", "quote_all_identifiers = on",
		"row_security = off", "session_replication_role = replica", "synchronous_commit = off", "idle_in_transaction_session_timeout = 1000",
		"force_parallel_mode = on", "debug_parallel_query = on",
	},
	"MySQL": {
		"sql_safe_updates = 1", "sql_select_limit = 0", "sql_select_limit = 1", "max_join_size = 1", "sql_big_selects = 0", "max_sort_length = 8",
		"sql_auto_is_null = 1", "time_zone = '+05:30'", "SESSION TRANSACTION ISOLATION LEVEL SERIALIZABLE", "SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
		"SESSION TRANSACTION ISOLATION LEVEL READ UNCOMMITTED",
		"sql_mode = 'ANSI,NO_UNSIGNED_SUBTRACTION,NO_BACKSLASH_ESCAPES,TRADITIONAL,PAD_CHAR_TO_FULL_LENGTH'",
		"sql_mode = 'ONLY_FULL_GROUP_BY,STRICT_ALL_TABLES,PIPES_AS_CONCAT,IGNORE_SPACE,HIGH_NOT_PRECEDENCE'", "sql_mode = ''",
		"sql_mode = 'EMPTY_STRING_IS_NULL,STRICT_ALL_TABLES'", "sql_mode = 'ORACLE'", "sql_mode = 'MSSQL'",
		"character_set_connection = latin1", "collation_connection = 'utf8mb4_general_ci'", "NAMES 'utf8mb4' COLLATE 'utf8mb4_0900_ai_ci'", "NAMES 'utf8mb4' COLLATE 'utf8mb4_bin'",
		"div_precision_increment = 0", "low_priority_updates = 1", "big_tables = 1", "unique_checks = 0", "foreign_key_checks = 0",
		"optimizer_switch = 'materialization=off,semijoin=off,derived_merge=off'", "in_predicate_conversion_threshold = 2", "insert_id = 5",
		"group_concat_max_len = 4", "innodb_lock_wait_timeout = 1", "lock_wait_timeout = 1", "max_statement_time = 20",
	},
	"SQLite": {
		"reverse_unordered_selects = 1", "recursive_triggers = 1", "full_column_names = 1", "short_column_names = 0", "count_changes = 1",
		"read_uncommitted = 1", "case_sensitive_like = 1", "ignore_check_constraints = 1", "foreign_keys = 1", "automatic_index = 0",
		"trusted_schema = 0", "secure_delete = 1", "cache_size = 1",
	},
}

// TestSettingsOfSessions makes each kind of call in sessions with each of these settings, which were made before the
// first call of a store or after it.
func TestSettingsOfSessions(t *testing.T) {
	t.Parallel()
	dsns := map[string]func(t *testing.T) (*database, string, string){
		"PostgreSQL": func(t *testing.T) (*database, string, string) {
			return newPostgres(t), "pgx", postgres.Get(t).DSN("default_query_exec_mode=exec")
		},
		"MySQL": func(t *testing.T) (*database, string, string) {
			return newMariaDB(t), "mysql", mariaDB.Get(t).DSN("interpolateParams=true")
		},
		"SQLite": func(t *testing.T) (*database, string, string) {
			dsn := sqliteDSN(t)
			return newDatabase(t, "sqlite", dsn, sqlstore.SQLite(), ""), "sqlite", dsn
		},
	}
	for name, settings := range harmless {
		verb := "SET "
		if name == "SQLite" {
			verb = "PRAGMA "
		}
		for i, setting := range settings {
			t.Run(name+"/"+setting, func(t *testing.T) {
				t.Parallel()
				for _, pessimistic := range []bool{i%2 == 0, i%2 != 0} {
					d, driverName, dsn := dsns[name](t)
					set := &database{openAs(t, driverName, dsn), d.dialect, d.table}
					s := set.store(t, sqlstore.Options{Pessimistic: pessimistic})
					if pessimistic {
						_, err := s.Inspect(t.Context(), "k")
						require.NoError(t, err)
					}
					inAll(t, set.db, verb+setting)
					callAll(t, &testedStore{s.Store, d}, set.db)
				}
			})
		}
	}
}

// TestUnfitSessionsAreRefused checks that no lock is granted in sessions whose renewals would be rolled back in the end, or
// whose leases end at once for others, and that a lease is not renewed in one. The error names the setting.
func TestUnfitSessionsAreRefused(t *testing.T) {
	for setting, c := range map[string]struct {
		want  string
		after bool // also after the first call
	}{
		"autocommit = 0":              {"autocommit is off", true},
		"completion_type = 'RELEASE'": {"completion_type is RELEASE", false},
		"completion_type = 'CHAIN'":   {"completion_type is CHAIN", true},
		"timestamp = 1000000000":      {"timestamp is set", false},
		"timestamp = 2000000000.5":    {"timestamp is set", false},
	} {
		ends := strings.Contains(setting, "RELEASE")
		for _, pessimistic := range []bool{false, true} {
			for _, after := range []bool{false, true} {
				if after && !c.after {
					continue
				}
				d := newMariaDB(t)
				l := acquire(t, d.store(t, sqlstore.Options{}), request("held"))
				known := acquire(t, d.store(t, sqlstore.Options{}), request("known"))
				require.NoError(t, d.store(t, sqlstore.Options{}).Release(t.Context(), known))
				var params []string
				if name, value, _ := strings.Cut(setting, " = "); !after {
					params = []string{name + "=" + url.QueryEscape(value)}
				}
				s := (&database{openAs(t, "mysql", mariaDB.Get(t).DSN(params...)), d.dialect, d.table}).store(t, sqlstore.Options{Pessimistic: pessimistic})
				if after {
					_, err := s.Inspect(t.Context(), "k")
					require.NoError(t, err)
					inAll(t, s.of.db, "SET "+setting)
				}
				for _, key := range []string{"new", "known"} {
					_, err := s.Acquire(t.Context(), request(key))
					require.ErrorContains(t, err, c.want)
					if ends { // the server has closed the connection
						break
					}
					_, err = s.Wait(t.Context(), request(key), func() {})
					require.ErrorContains(t, err, c.want)
				}
				if ends {
					continue
				}
				require.ErrorContains(t, s.Renew(t.Context(), []driver.Lease{l}, make([]renewal.Outcome, 1)), c.want)
				require.ErrorContains(t, s.SetMetadata(t.Context(), l, "m"), c.want)
				require.ErrorContains(t, s.Release(t.Context(), l), c.want)
			}
		}
	}
}

// TestTimeoutsOfTheServer makes calls in sessions whose statements the server ends soon, while another transaction has
// the row of the key. The error must name the setting, and the lease must last.
func TestTimeoutsOfTheServer(t *testing.T) {
	t.Parallel()
	for setting, want := range map[string]string{
		"statement_timeout":                   "statement timeout",
		"lock_timeout":                        "lock timeout",
		"idle_in_transaction_session_timeout": "no answer within",
		"transaction_timeout":                 "transaction timeout",
	} {
		t.Run("PostgreSQL/"+setting, func(t *testing.T) {
			t.Parallel()
			d := newPostgres(t)
			if setting == "transaction_timeout" && postgresVersion(t, d.db) < 17 {
				t.Skip("PostgreSQL 17 has this setting")
			}
			holder := d.store(t, sqlstore.Options{})
			limited := (&database{openAs(t, "pgx", postgres.Get(t).DSN(setting+"=500")), d.dialect, d.table}).store(t, sqlstore.Options{Timeout: 4 * time.Second})
			l := acquire(t, limited, request("k"))
			free := acquire(t, holder, request("free"))
			require.NoError(t, holder.Release(t.Context(), free))
			unlock := lockRow(t, holder, "k", "free")
			_, err := limited.Acquire(t.Context(), request("free"))
			require.ErrorContains(t, err, want)
			require.ErrorContains(t, limited.Release(t.Context(), l), want)
			out := make([]renewal.Outcome, 1)
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			require.Error(t, limited.Renew(ctx, []driver.Lease{l}, out))
			assert.False(t, out[0].IsLost())
			unlock()
			require.NoError(t, limited.Renew(t.Context(), []driver.Lease{l}, out))
			assert.Equal(t, renewal.Renewed, out[0])
			_, err = holder.Acquire(t.Context(), request("k"))
			require.ErrorIs(t, err, driver.ErrNotAcquired)
			require.NoError(t, limited.Release(t.Context(), l))
			acquire(t, limited, request("free"))
		})
	}
}

func postgresVersion(t *testing.T, db *sql.DB) (major int) {
	t.Helper()
	require.NoError(t, db.QueryRowContext(t.Context(), "SELECT current_setting('server_version_num')::int / 10000").Scan(&major))
	return major
}

// openAs returns another pool.
func openAs(t *testing.T, driverName, dsn string) *sql.DB {
	t.Helper()
	db, err := sql.Open(driverName, dsn)
	require.NoError(t, err)
	t.Cleanup(func() { _ = db.Close() }) // the server may have closed connections
	return db
}

// TestAPoolerOfStatementsIsRefused checks the first call of each kind. A hand-over would be the first to fail otherwise.
func TestAPoolerOfStatementsIsRefused(t *testing.T) {
	b, err := testsql.LaunchBouncer(postgres.Get(t), "pool_mode = statement")
	testprocess.Check(t, err)
	defer b.Close()
	d := newPostgres(t)
	s := (&database{openAs(t, "pgx", b.DSN("default_query_exec_mode=exec")), d.dialect, d.table}).store(t, sqlstore.Options{})
	_, err = s.Acquire(t.Context(), request("k"))
	require.ErrorContains(t, err, "set pool_mode=transaction")
	require.ErrorIs(t, err, driver.ErrNotSent)
	_, err = s.Wait(t.Context(), request("k"), func() {})
	require.ErrorContains(t, err, "set pool_mode=transaction")
}

// TestPreparedStatementsOfAPooler makes calls with prepared statements by way of a PgBouncer that keeps them, and of
// one that does not. The latter must end in errors that say what to set, and change nothing.
func TestPreparedStatementsOfAPooler(t *testing.T) {
	t.Parallel()
	for _, kept := range []bool{true, false} {
		t.Run(fmt.Sprintf("PgBouncer/kept=%v", kept), func(t *testing.T) {
			t.Parallel()
			setting := "max_prepared_statements = 0"
			if kept {
				setting = "max_prepared_statements = 100"
			}
			b, err := testsql.LaunchBouncer(postgres.Get(t), setting, "default_pool_size = 1")
			if err != nil && strings.Contains(err.Error(), "max_prepared_statements") {
				t.Skip("PgBouncer 1.21 has this setting:", err)
			}
			testprocess.Check(t, err)
			defer b.Close()
			d := newPostgres(t)
			var stores []*testedStore // two programs share one connection to the server
			for range 2 {
				pool := openAs(t, "pgx", b.DSN())
				s := (&database{pool, d.dialect, d.table}).store(t, sqlstore.Options{})
				stores = append(stores, s)
				if kept && len(stores) == 1 {
					callAll(t, &testedStore{s.Store, d}, pool)
				}
			}
			failures := 0
			for i := range 20 {
				r := request(fmt.Sprint("k", i))
				_, err := stores[i%2].Acquire(t.Context(), r)
				if err != nil {
					require.ErrorContains(t, err, "set max_prepared_statements")
					failures++
				}
				info, inspectErr := d.store(t, sqlstore.Options{}).Inspect(t.Context(), r.Key)
				require.NoError(t, inspectErr)
				assert.Equal(t, err == nil, info.Held == 1)
			}
			assert.Equal(t, kept, failures == 0)
		})
	}
}

// TestTheSearchPathDoesNotDecide creates the tables in two schemas. A store that has begun before goes on with the first ones,
// whatever the search_path is, and another one is refused until it names a schema.
func TestTheSearchPathDoesNotDecide(t *testing.T) {
	d := newPostgres(t)
	s := d.store(t, sqlstore.Options{})
	l := acquire(t, s, request("k"))
	for _, text := range []string{"CREATE SCHEMA s" + d.table, "SET search_path = s" + d.table} {
		inAll(t, d.db, strings.Replace(text, "SCHEMA", "SCHEMA IF NOT EXISTS", 1))
	}
	require.NoError(t, sqlstore.CreateSchema(t.Context(), d.db, d.dialect, &sqlstore.Options{Table: d.table}))
	_, err := d.store(t, sqlstore.Options{}).Acquire(t.Context(), request("k"))
	require.ErrorIs(t, err, driver.ErrNotAcquired, "CreateSchema has found the tables")

	require.NoError(t, sqlstore.CreateSchema(t.Context(), d.db, d.dialect, &sqlstore.Options{Table: "s" + d.table + "." + d.table}))
	want := "the schemas public, s" + d.table + " have tables " + d.table + "_*"
	_, err = d.store(t, sqlstore.Options{}).Acquire(t.Context(), request("k"))
	require.ErrorContains(t, err, want)
	require.ErrorContains(t, err, `Options.Table "public.`+d.table+`"`)
	require.ErrorContains(t, sqlstore.CreateSchema(t.Context(), d.db, d.dialect, &sqlstore.Options{Table: d.table}), want)
	_, err = (&database{d.db, d.dialect, "public." + d.table}).store(t, sqlstore.Options{}).Acquire(t.Context(), request("k"))
	require.ErrorIs(t, err, driver.ErrNotAcquired)
	guard(t, s, d.db, l)
	require.NoError(t, s.Release(t.Context(), l))
}

// TestTheCurrentDatabaseDoesNotDecide changes the current database of all sessions to one that has the same tables.
func TestTheCurrentDatabaseDoesNotDecide(t *testing.T) {
	d := newMariaDB(t)
	s := d.store(t, sqlstore.Options{})
	l := acquire(t, s, request("k"))
	inAll(t, d.db, "CREATE DATABASE IF NOT EXISTS d"+d.table, "USE d"+d.table)
	require.NoError(t, sqlstore.CreateSchema(t.Context(), d.db, d.dialect, &sqlstore.Options{Table: d.table}))
	_, err := s.Acquire(t.Context(), request("k"))
	require.ErrorIs(t, err, driver.ErrNotAcquired)
	guard(t, s, d.db, l)
	require.NoError(t, s.Release(t.Context(), l))

	none := openAs(t, "mysql", strings.TrimSuffix(mariaDB.Get(t).DSN(), "test"))
	_, err = (&database{none, d.dialect, d.table}).store(t, sqlstore.Options{}).Acquire(t.Context(), request("k"))
	require.ErrorContains(t, err, "no current database")
	require.ErrorContains(t, sqlstore.CreateSchema(t.Context(), none, d.dialect, nil), "no current database")
}

// TestATemporaryTableDoesNotHideOne gives all sessions temporary tables of the same names.
func TestATemporaryTableDoesNotHideOne(t *testing.T) {
	for _, d := range []*database{newPostgres(t), newSQLite(t)} {
		name := d.table
		if name == "" {
			name = "leasewheel"
		}
		inAll(t, d.db, "CREATE TEMPORARY TABLE "+name+"_locks (x INTEGER)", "CREATE TEMPORARY TABLE "+name+"_places (x INTEGER)")
		s := d.store(t, sqlstore.Options{})
		l := acquire(t, s, request("k"))
		guard(t, s, d.db, l)
		require.NoError(t, s.Release(t.Context(), l))
	}
}

// TestAFullPoolIsNamed takes all connections of a pool. The errors must say so instead of blaming the database.
func TestAFullPoolIsNamed(t *testing.T) {
	d := newPostgres(t)
	s := d.store(t, sqlstore.Options{Timeout: 200 * time.Millisecond})
	l := acquire(t, s, request("k"))
	d.db.SetMaxOpenConns(4)
	for range 4 {
		c, err := d.db.Conn(t.Context())
		require.NoError(t, err)
		defer func() { require.NoError(t, c.Close()) }()
	}
	const want = "no connection of the pool was free (4 of 4 in use)"
	_, err := s.Acquire(t.Context(), request("other"))
	require.ErrorContains(t, err, want)
	require.NotContains(t, err.Error(), "no answer within")
	require.ErrorIs(t, err, driver.ErrNotSent)
	_, err = s.Wait(t.Context(), request("other"), func() {})
	require.ErrorContains(t, err, want)
	require.ErrorIs(t, err, driver.ErrNotSent)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err = s.Renew(ctx, []driver.Lease{l}, make([]renewal.Outcome, 1))
	require.ErrorContains(t, err, want)
	require.ErrorIs(t, err, driver.ErrNotSent)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, s.Release(t.Context(), l), want)

	client, err := lock.New(d.store(t, sqlstore.Options{}), nil)
	require.NoError(t, err)
	defer func() { require.NoError(t, client.Close(t.Context())) }()
	ctx, cancel = context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err = client.Mutex("other").TryLock(ctx)
	require.ErrorContains(t, err, want, "the end of ctx does not hide it")
	require.ErrorIs(t, err, lock.ErrUnavailable)
	require.ErrorIs(t, err, context.DeadlineExceeded)
}

// TestAFullPoolLosesALock takes all connections while a client holds a lock. The loss has no cause, because the database
// is not guilty and the store does not know who has the connections, but it names the pool.
func TestAFullPoolLosesALock(t *testing.T) {
	onBoth(t, func(t *testing.T, d *database) {
		renewed := make(chan struct{}, 100)
		client, err := lock.New(d.store(t, sqlstore.Options{}), &lock.Options{
			Terms: lock.Terms{TTL: 5 * time.Second},
			Hooks: &lock.Hooks{BatchDone: func(b renewal.BatchInfo) {
				if b.Renewed > 0 {
					renewed <- struct{}{}
				}
			}},
		})
		require.NoError(t, err)
		defer func() { assert.NoError(t, client.Close(t.Context())) }()
		held, err := client.Mutex("k").Lock(t.Context())
		require.NoError(t, err)
		<-renewed
		d.db.SetMaxOpenConns(4)
		for range 4 {
			c, err := d.db.Conn(t.Context())
			require.NoError(t, err)
			defer func() { assert.NoError(t, c.Close()) }()
		}
		<-held.Done()
		var lost *renewal.LostError
		require.ErrorAs(t, held.Err(), &lost)
		assert.Equal(t, renewal.CauseUnknown, lost.Cause())
		assert.Regexp(t, `^\d+ renewals? not sent within `, lost.Seen())
		assert.ErrorContains(t, lost, "no connection of the pool was free (4 of 4 in use)")
	})
}

// TestASerializableDatabase checks that contention costs repetitions only, in sessions whose
// statements fail if another transaction has changed their rows.
func TestASerializableDatabase(t *testing.T) {
	d := newPostgres(t, "default_transaction_isolation=serializable")
	s := d.store(t, sqlstore.Options{})
	const clients, rounds = 8, 25
	held := 0
	var mu sync.Mutex // guards held
	var wg sync.WaitGroup
	for range clients {
		wg.Go(func() {
			for range rounds {
				l, err := s.Wait(t.Context(), request("k"), func() {})
				if !assert.NoError(t, err) {
					return
				}
				mu.Lock()
				held++
				assert.Equal(t, 1, held)
				mu.Unlock()
				renews(t, s, l)
				mu.Lock()
				held--
				mu.Unlock()
				assert.NoError(t, s.Release(t.Context(), l))
			}
		})
	}
	wg.Wait()
}

// TestReadOnlyConnectionsAreReplaced makes all idle connections of a pool read-only, as a
// switch-over does. One call must succeed on a new connection.
func TestReadOnlyConnectionsAreReplaced(t *testing.T) {
	for name, test := range map[string]struct {
		d       *database
		setting string
	}{
		"PostgreSQL": {newPostgres(t), "SET default_transaction_read_only = on"},
		"MariaDB":    {newMariaDB(t), "SET SESSION TRANSACTION READ ONLY"},
		"SQLite":     {newSQLite(t), "PRAGMA query_only = on"},
	} {
		t.Run(name, func(t *testing.T) {
			s := test.d.store(t, sqlstore.Options{})
			l := acquire(t, s, request("k"))
			turnReadOnly := func() { inAll(t, test.d.db, test.setting) }
			turnReadOnly()
			renews(t, s, l)
			turnReadOnly()
			acquire(t, s, request("other"))
			turnReadOnly()
			require.NoError(t, s.Release(t.Context(), l))
		})
	}
}

// TestAReadOnlyServerIsToldSoon checks that a call does not try again for ever if new connections take
// no writes either, and that its error is that of the server.
func TestAReadOnlyServerIsToldSoon(t *testing.T) {
	d := newPostgres(t)
	var dials atomic.Int64
	config, err := pgx.ParseConfig(postgres.Get(t).DSN("default_transaction_read_only=on"))
	require.NoError(t, err)
	config.DialFunc = func(ctx context.Context, network, addr string) (net.Conn, error) {
		dials.Add(1)
		return (&net.Dialer{}).DialContext(ctx, network, addr)
	}
	db := stdlib.OpenDB(*config)
	defer func() { require.NoError(t, db.Close()) }()
	s := (&database{db, d.dialect, d.table}).store(t, sqlstore.Options{})
	_, err = s.Acquire(t.Context(), request("k"))
	require.ErrorContains(t, err, "read-only transaction")
	assert.LessOrEqual(t, dials.Load(), int64(2))
}
