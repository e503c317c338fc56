// The adapters of PostgreSQL's advisory locks and of this project's store on
// PostgreSQL.

package main

import (
	"context"
	"database/sql"
	"log/slog"
	"sync"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/sqlstore"
	"github.com/leasewheel/leasewheel/lock/sqlstore/pglisten"
)

var pgxModules = []string{"github.com/jackc/pgx/v5"}

func postgresCandidates() []*candidate {
	const noLease = "the lock has no lease, and ends with its session"
	return []*candidate{{
		name: "pg advisory locks", store: postgresServer, modules: pgxModules, renews: false, open: openAdvisory,
		pattern: func(key string) string { return "'" + key + "'" },
		without: map[string]string{"cut": "TCP keep-alive decides, which the proxy answers", "late-release": noLease},
		note:    "session locks; no lease: they end with the session",
	}}
}

func postgresDSN(addr string) string {
	return "postgres://postgres@" + addr + "/postgres?sslmode=disable"
}

func oursOnPostgres(_ context.Context, addrs []string) (driver.Store, error) {
	db, err := sql.Open("pgx", postgresDSN(addrs[0]))
	if err != nil {
		return nil, err
	}
	return sqlstore.New(db, sqlstore.PostgreSQL(), nil)
}

// oursOnListeningPostgres returns a store whose waiters are told, on a connection of its own. The process
// that has the Listener ends with the round.
func oursOnListeningPostgres(_ context.Context, addrs []string) (driver.Store, error) {
	db, err := sql.Open("pgx", postgresDSN(addrs[0]))
	if err != nil {
		return nil, err
	}
	listener, err := pglisten.New(postgresDSN(addrs[0]), &pglisten.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	return sqlstore.New(db, sqlstore.PostgreSQL(), &sqlstore.Options{Listener: listener})
}

// openAdvisory connects with the simple protocol, so that a request has the key as text.
func openAdvisory(ctx context.Context, addrs []string) (Client, error) {
	conn, err := pgx.Connect(ctx, postgresDSN(addrs[0])+"&default_query_exec_mode=simple_protocol")
	return &advisoryClient{conn: conn, dsn: postgresDSN(addrs[0]) + "&default_query_exec_mode=simple_protocol"}, err
}

type advisoryClient struct {
	conn *pgx.Conn
	dsn  string
}

// Acquire implements Client. A connection that has ended is replaced.
func (c *advisoryClient) Acquire(ctx context.Context, key string) (Lease, error) {
	if c.conn.IsClosed() {
		conn, err := pgx.Connect(ctx, c.dsn)
		if err != nil {
			return nil, err
		}
		c.conn = conn
	}
	if _, err := c.conn.Exec(ctx, "SELECT pg_advisory_lock(hashtext($1))", key); err != nil {
		return nil, err
	}
	return &advisoryLease{conn: c.conn, key: key}, nil
}

type advisoryLease struct {
	mu   sync.Mutex // guards conn
	conn *pgx.Conn
	key  string
}

// Holds implements Lease.
func (*advisoryLease) Holds() bool { return true }

// Ask implements Asker: the lock is held as long as its session lives. The end of ctx would end the
// session, so it does not count.
func (l *advisoryLease) Ask(ctx context.Context) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	err := l.conn.Ping(context.WithoutCancel(ctx))
	return !l.conn.IsClosed(), err
}

// Token implements Lease.
func (*advisoryLease) Token() uint64 { return 0 }

// Release implements Lease.
func (l *advisoryLease) Release(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.conn.Exec(ctx, "SELECT pg_advisory_unlock(hashtext($1))", l.key)
	return err
}
