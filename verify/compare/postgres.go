// The adapters of PostgreSQL's advisory locks and of this project's store on
// PostgreSQL.

package main

import (
	"context"
	"database/sql"
	"log/slog"

	"github.com/jackc/pgx/v5"
	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/sqlstore"
	"github.com/leasewheel/leasewheel/lock/sqlstore/pglisten"
)

var pgxModules = []string{"github.com/jackc/pgx/v5"}

func postgresCandidates() []*candidate {
	return []*candidate{{
		name: "pg advisory locks", store: postgresServer, modules: pgxModules, renews: false, open: openAdvisory,
		pattern: func(key string) string { return "'" + key + "'" },
		without: "cut", // TCP keep-alive decides, which the proxy answers
		note:    "session locks; no lease: they end with the session",
	}}
}

func postgresDSN(addr string) string {
	return "postgres://postgres@" + addr + "/postgres?sslmode=disable"
}

func oursOnPostgres(_ context.Context, addrs []string) (driver.Store, error) {
	return onPostgres(addrs[0], nil)
}

// oursOnListeningPostgres returns a store whose waiters are notified, on a connection of its own. The process
// that has the Listener ends with the round.
func oursOnListeningPostgres(_ context.Context, addrs []string) (driver.Store, error) {
	listener, err := pglisten.New(postgresDSN(addrs[0]), &pglisten.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, err
	}
	return onPostgres(addrs[0], &sqlstore.Options{Listener: listener})
}

func onPostgres(addr string, o *sqlstore.Options) (driver.Store, error) {
	db, err := sql.Open("pgx", postgresDSN(addr))
	if err != nil {
		return nil, err
	}
	return sqlstore.New(db, sqlstore.PostgreSQL(), o)
}

// openAdvisory connects with the simple protocol, so that a request has the key as text.
func openAdvisory(ctx context.Context, addrs []string) (acquirer, error) {
	dsn := postgresDSN(addrs[0]) + "&default_query_exec_mode=simple_protocol"
	conn, err := pgx.Connect(ctx, dsn)
	return func(ctx context.Context, key string) (*grant, error) {
		if conn.IsClosed() {
			if conn, err = pgx.Connect(ctx, dsn); err != nil {
				return nil, err
			}
		}
		c := conn
		if _, err := c.Exec(ctx, "SELECT pg_advisory_lock(hashtext($1))", key); err != nil {
			return nil, err
		}
		// The lock is held as long as its session lives.
		return &grant{holds: func() bool { return !c.IsClosed() }, release: func(ctx context.Context) error {
			_, err := c.Exec(ctx, "SELECT pg_advisory_unlock(hashtext($1))", key)
			return err
		}}, nil
	}, err
}
