package sqlstore

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"strings"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// SQLite is the dialect of SQLite from version 3.35 on, for the processes of one machine. The
// package documentation says which pragmas it needs. Stores that were made with the same
// Dialect value write one after another, instead of waiting for the lock of the file.
func SQLite() Dialect { return Dialect{sqlite{make(chan struct{}, 1)}} }

type sqlite struct {
	writer chan struct{} // has an element while one of the stores writes
}

func (sqlite) name() string               { return "SQLite" }
func (sqlite) hasSchemas() bool           { return false }
func (sqlite) hasSynchronousCommit() bool { return false }
func (sqlite) hasMessages() bool          { return false }
func (sqlite) schema() string             { return "sqlite.sql" }
func (sqlite) placeholder(int) string     { return "?" }

func (sqlite) expressions(Options) map[string]string {
	return map[string]string{
		"now":      "CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)",
		"us":       "1000 * {now}",
		"sync":     "1",
		"bounded":  "1",
		"floor_of": "(SELECT token FROM {floor})",
		"empty":    "x''",
		"kept":     "x'00'",
		"bytes":    "BLOB",
		"int":      "INTEGER",
		"text":     "TEXT",
		"lock":     "",
	}
}

func (sqlite) adapt(t *texts) {
	t.acquire = `INSERT INTO {locks} AS l (lock_key, kind, owner, token, expires, metadata, queued_until, refused_until)
		VALUES (?1, 0, ?2, max({us}, 1 + {floor_of}), {now} + ?3, ?4, 0, 0)
		ON CONFLICT (lock_key) DO UPDATE SET
			token    = CASE WHEN l.owner = excluded.owner AND l.expires >= {now} THEN l.token ELSE max(l.token + 1, {us}) END,
			expires  = CASE WHEN l.owner = excluded.owner AND l.expires >= {now} THEN max(l.expires, {now} + ?3) ELSE {now} + ?3 END,
			metadata = CASE WHEN l.owner = excluded.owner AND l.expires >= {now} THEN l.metadata ELSE excluded.metadata END,
			owner    = excluded.owner
		WHERE l.kind = 0 AND (l.owner = excluded.owner AND l.expires >= {now}
			OR (l.owner = {empty} OR l.expires < {now}) AND l.queued_until < {now} AND l.refused_until < {now})
		RETURNING token`
	t.guard = `UPDATE {locks} SET token = token WHERE lock_key = ? AND token = ? AND kind = 0
		AND owner <> {empty} AND owner <> {kept} AND expires >= {now}`
	t.renew = `UPDATE {locks} SET expires = max(expires, {now} + ?)
		WHERE lock_key = ? AND kind = 0 AND owner = ? AND token = ? AND expires >= {now}`
	t.release = `UPDATE {locks} SET owner = CASE WHEN ?1 > 0 THEN {kept} ELSE {empty} END, expires = {now} + ?1, metadata = NULL
		WHERE lock_key = ?2 AND kind = 0 AND owner = ?3 AND expires >= {now} AND queued_until < {now}`
}

// write runs f while no other store of the dialect writes.
func (d sqlite) write(ctx context.Context, f func() error) error {
	select {
	case d.writer <- struct{}{}:
	case <-ctx.Done():
		return notSentError{context.Cause(ctx)}
	}
	defer func() { <-d.writer }()
	return f()
}

// begin begins with BEGIN IMMEDIATE: a transaction that reads first and becomes a writer later
// fails if another has written in between.
func (d sqlite) begin(ctx context.Context, c *sql.Conn) (transaction, error) {
	select {
	case d.writer <- struct{}{}:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	tx := &sqliteTx{Conn: c, writer: d.writer}
	if _, err := c.ExecContext(ctx, "BEGIN IMMEDIATE"); err != nil {
		tx.rollback() // a driver may return the error of ctx although the transaction has begun
		return nil, err
	}
	return tx, nil
}

// sqliteTx is a transaction that was begun by a statement.
type sqliteTx struct {
	*sql.Conn
	writer chan struct{}
	done   bool
}

func (t *sqliteTx) commit(ctx context.Context) error {
	_, err := t.ExecContext(ctx, "COMMIT")
	if err == nil {
		t.end()
	}
	return err
}

// rollback closes the connection if that may still have a transaction, because the pool would give
// it to callers that expect none.
func (t *sqliteTx) rollback() {
	if t.done {
		return
	}
	defer t.end()
	_, err := t.ExecContext(context.Background(), "ROLLBACK")
	if err != nil && !strings.Contains(err.Error(), "no transaction is active") {
		_ = t.Raw(func(any) error { return sqldriver.ErrBadConn })
	}
}

func (t *sqliteTx) end() {
	t.done = true
	<-t.writer
}

// unguarded needs no statement: a transaction that guards a lock is the only writer.
func (sqlite) unguarded(context.Context, querier, *texts, []byte) (bool, error) { return true, nil }

func (sqlite) sweepRows(ctx context.Context, c *sql.Conn, t *texts, after, last []byte, free int64) (int64, error) {
	return affected(c.ExecContext(ctx, t.sweepRows, after, last, free))
}

func (sqlite) granted(context.Context, querier, *texts, []byte, int64) error { return nil }

func (sqlite) forget(context.Context, querier, *texts, []byte) error { return nil }

// guard changes nothing. It makes the transaction the only writer, and fails if another has
// written since the transaction has read.
func (sqlite) guard(ctx context.Context, tx querier, t *texts, key []byte, token int64) (bool, error) {
	result, err := tx.ExecContext(ctx, t.guard, key, token)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

func (d sqlite) acquire(ctx context.Context, c *sql.Conn, t *texts, r driver.Request) (a answer, decided bool, err error) {
	err = c.QueryRowContext(ctx, t.seen, []byte(r.Key), []byte(r.Owner)).Scan(&a.left)
	if err == nil {
		a.left = max(a.left, 1)
		return a, true, nil
	}
	if !errors.Is(err, sql.ErrNoRows) {
		return answer{}, false, err
	}
	err = d.write(ctx, func() error {
		return c.QueryRowContext(ctx, t.acquire, []byte(r.Key), []byte(r.Owner), ms(r.TTL), metadataOf(r)).Scan(&a.token)
	})
	if errors.Is(err, sql.ErrNoRows) {
		return answer{}, false, nil
	}
	a.granted = err == nil
	return a, a.granted, err
}

func (d sqlite) renew(ctx context.Context, c *sql.Conn, t *texts, leases []renewItem, renewed func(i int)) error {
	return d.each(ctx, c, t.renew, len(leases), func(i int) []any {
		return []any{leases[i].ttl, leases[i].key, leases[i].owner, leases[i].token}
	}, renewed)
}

func (d sqlite) release(ctx context.Context, c *sql.Conn, t *texts, leases []releaseItem, released func(i int)) error {
	return d.each(ctx, c, t.release, len(leases), func(i int) []any {
		return []any{leases[i].keep, leases[i].key, leases[i].owner}
	}, released)
}

// each runs a statement n times in one transaction, and calls changed for each run that has
// changed a row.
func (d sqlite) each(ctx context.Context, c *sql.Conn, text string, n int, args func(i int) []any, changed func(i int)) error {
	tx, err := d.begin(ctx, c)
	if err != nil {
		return err
	}
	defer tx.rollback()
	statement, err := c.PrepareContext(ctx, text)
	if err != nil {
		return err
	}
	defer func() { _ = statement.Close() }()
	var found []int
	for i := range n {
		result, err := statement.ExecContext(ctx, args(i)...)
		if err != nil {
			return err
		}
		rows, err := result.RowsAffected()
		if err != nil {
			return err
		}
		if rows > 0 {
			found = append(found, i)
		}
	}
	if err := tx.commit(ctx); err != nil {
		return err
	}
	for _, i := range found {
		changed(i)
	}
	return nil
}

// wantsRetry implements dialect: SQLITE_BUSY, after the busy_timeout of the connection.
func (sqlite) wantsRetry(err error) bool { return hasSQLiteCode(err, 5, "database is locked") }

// isReadOnly implements dialect: SQLITE_READONLY. The file may be writable, or another one, for a new
// connection.
func (sqlite) isReadOnly(err error) bool { return hasSQLiteCode(err, 8, "readonly database") }

// hasSQLiteCode reports whether an error has a primary result code, or its text if the driver has
// no codes.
func hasSQLiteCode(err error, code int, text string) bool {
	var coded interface{ Code() int }
	if errors.As(err, &coded) {
		return coded.Code()&0xff == code
	}
	return strings.Contains(err.Error(), text)
}

// existsAlready implements dialect. Statements that create something run one after another.
func (sqlite) existsAlready(error) bool { return false }
