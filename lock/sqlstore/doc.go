// Package sqlstore keeps locks in tables of a SQL database: PostgreSQL, MariaDB,
// MySQL, or SQLite for the processes of one machine. It is for programs that have such a database and want no other
// server for their locks. The caller brings the *sql.DB and its driver; this package imports none.
//
//	db, err := sql.Open("pgx", "postgres://…")
//	…
//	err = sqlstore.CreateSchema(ctx, db, sqlstore.PostgreSQL(), nil)
//	…
//	store, err := sqlstore.New(db, sqlstore.PostgreSQL(), nil)
//	…
//	client, err := lock.New(store, nil)
//
// The page [locks in a database] explains what such a store is good for, and how it solves the
// problems that locks in databases have.
//
// # Modes
//
// The store has mode Exclusive, which Mutex, Reentrant, Multi, Do and Election use, and one row for each key, so that
// one statement can decide who holds it. Use redisstore for RWMutex, Semaphore and Batch. [Store.Guard] binds a lock to a
// transaction of the caller, so that a late holder cannot write.
//
// # Clock
//
// Leases expire by the clock of the database: clock_timestamp() in PostgreSQL, and the clock of
// the machine in SQLite, read in the statement that uses it. Clients send durations only. The
// clock must be slewed. If it is stepped forward, leases end early by as much, before their
// holders notice. If it is stepped back, leases last longer by as much.
//
// After a fail-over the clock of the new server counts, so keep the clocks of all servers that may become the primary in step.
//
// # Tokens
//
// A token is the instant of the grant in microseconds, or one more than the last token of the key
// if that is greater. The row of a key stays after the release, so its tokens rise whatever the
// clock does. [Store.Sweep] removes rows that have long been free.
//
// # States
//
// Save keeps a state beside a lock, in the table leasewheel_states, as durable as the lock. A program that saves no
// states needs neither the table nor rights to it. A state costs one statement for each Save, of up to 64 KiB, and one more
// for each Acquire that asks for it. [Store.Sweep] deletes the states that have ended.
//
// # PostgreSQL
//
// The store uses no advisory locks and nothing else of a session, so it works behind PgBouncer in
// transaction mode. It works on the primary only. With asynchronous replicas, a fail-over may lose
// a grant and give a lock two holders, which fencing tokens distinguish; synchronous replicas and
// [Options.SynchronousCommit] prevent it. Do not make the tables UNLOGGED: the server empties
// them after a crash.
//
// # Sessions
//
// Other clients of a pool or a pooler may change the settings of a session. The first call of a store reads
// where the tables are, and all statements name their schema. In PostgreSQL that is the only schema of the
// database that has the tables; if several have them, calls fail until [Options.Table] names one. In MySQL and MariaDB it
// is the current database of the first call. The store works with any other setting, such as sql_mode,
// sql_safe_updates or bytea_output, or its calls fail and name the setting: autocommit=0, a completion_type
// other than NO_CHAIN, a timestamp, pool_mode=statement of PgBouncer.
//
// # Rights
//
// A user needs SELECT, INSERT, UPDATE and DELETE on the tables, in PostgreSQL also USAGE on their
// schema, and no other right. Errors name the tables for which a right is missing. Let another user,
// who may create tables, call [CreateSchema]:
//
//	GRANT SELECT, INSERT, UPDATE, DELETE ON leasewheel_locks, leasewheel_places, leasewheel_tombstones, leasewheel_states TO app
//
// # Fail-over
//
// If a server answers that it is read-only, as a primary that has become a replica does, the store
// closes the connection and repeats the call on the other ones of the pool, and on a new one in the end.
// So the name of the data source should lead to the primary: with pgx list all servers and set
// target_session_attrs=read-write.
//
// # MariaDB and MySQL
//
// The dialect [MySQL] is for both, with tables of InnoDB. Its transactions are READ COMMITTED, so the binary log must not
// have the format STATEMENT. It has one more table, leasewheel_grants, for [Store.Guard], with the
// same rights. A process that is paused within a transaction of the store, or whose network drops everything, keeps one key
// locked until the server ends its session, by default after hours. Open the pool with the parameter
// idle_transaction_timeout=5 for MariaDB,
//
//	user:password@tcp(db:3306)/app?idle_transaction_timeout=5&interpolateParams=true
//
// or a wait_timeout of minutes for MySQL, which has no other. PostgreSQL ends such transactions
// after [Options.Timeout]. In a Galera cluster or a group, send all calls to one node.
//
// # SQLite
//
// The file must be on a local disk, and all its users on one machine. Do not delete, rename or replace it while
// a process has it open: that process goes on with the old file, and others grant the same locks in the
// new one. A process that stands still within any transaction that writes keeps all others from
// writing, so they lose their leases. Open it with a busy_timeout
// and a write-ahead log; with the driver of modernc.org/sqlite:
//
//	file:locks.db?_pragma=busy_timeout(5000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)
//
// [locks in a database]: https://github.com/leasewheel/leasewheel/blob/main/docs/STORES.md
package sqlstore
