// The dialect of SQLite.

package sqlstore

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"strings"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// SQLite is the dialect of SQLite from version 3.35 on, for the processes of one machine. The
// package documentation lists the pragmas that it needs. Stores that were made with the same
// Dialect value write one after another, instead of waiting for the lock of the file.
func SQLite() Dialect { return Dialect{sqlite{writer: make(chan struct{}, 1)}} }

type sqlite struct {
	standard
	writer chan struct{} // has an element while one of the stores writes
}

func (sqlite) traits() traits { return traits{name: "SQLite", minConns: 1} }

func (sqlite) expressions(Options) map[string]string {
	return map[string]string{
		"now":      "CAST(round((julianday('now') - 2440587.5) * 86400000.0) AS INTEGER)",
		"us":       "1000 * {now}",
		"sync":     "1",
		"bounded":  "1",
		"primary":  "",
		"hex":      "1 = 1",
		"timed":    "1",
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
	t.queue, t.keepQueue, t.enter, t.entered, t.placeOf, t.leave, t.first = "", "", "", "", "", "", ""
	t.setPlace = strings.Replace(t.setPlace, "greatest", "max", 1)
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
	t.extendQueues = `WITH listed AS (SELECT lock_key FROM {locks} WHERE {list})
		UPDATE {locks} SET queued_until = max(queued_until, {now} + {ms}) WHERE lock_key IN listed`
	t.extendPlaces = `WITH listed AS (SELECT lock_key, owner FROM {places} WHERE {list})
		UPDATE {places} SET expires = {now} + {ms} WHERE (lock_key, owner) IN listed`
}

func (sqlite) in(rows [][][]byte) (string, []any) {
	var args []any
	for _, row := range rows {
		for _, value := range row {
			args = append(args, value)
		}
	}
	if len(rows[0]) == 1 {
		return "lock_key IN (" + marks(len(rows)), args
	}
	return "(lock_key, owner) IN (VALUES " + strings.TrimSuffix(strings.Repeat("(?,?),", len(rows)), ",") + ")", args
}

func (d sqlite) update(ctx context.Context, c *sql.Conn, text string, args ...any) (n int64, err error) {
	err = d.write(ctx, func() (err error) {
		n, err = affected(c.ExecContext(ctx, text, args...))
		return err
	})
	return n, err
}

// write runs f while no other store of the dialect writes.
func (d sqlite) write(ctx context.Context, f func() error) error {
	select {
	case d.writer <- struct{}{}:
	case <-ctx.Done():
		return driver.NotSent.Error(context.Cause(ctx))
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

// guard changes nothing. It makes the transaction the only writer, and fails if another has
// written since the transaction has read.
func (sqlite) guard(ctx context.Context, tx querier, t *texts, key []byte, token int64) (bool, error) {
	n, err := affected(tx.ExecContext(ctx, t.guard, key, token))
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

// renew is one transaction. No other writes meanwhile, so no row is locked, and what a read after the
// UPDATE finds is why that has found nothing.
func (d sqlite) renew(ctx context.Context, c *sql.Conn, t *texts, leases []renewItem, _ bool) ([]found, error) {
	tx, err := d.begin(ctx, c)
	if err != nil {
		return nil, err
	}
	defer tx.rollback()
	statement, err := c.PrepareContext(ctx, t.renew)
	if err != nil {
		return nil, err
	}
	defer func() { _ = statement.Close() }()
	all := make([]found, len(leases))
	for i, l := range leases {
		n, err := affected(statement.ExecContext(ctx, l.ttl, l.key, l.owner, l.token))
		if all[i] = foundRenewed; err == nil && n == 0 {
			var kind, token, expires, now int64
			var owner []byte
			err = c.QueryRowContext(ctx, t.read, l.key).Scan(&kind, &owner, &token, &expires, &now)
			all[i] = foundIn(l, kind, owner, token, expires, now)
		}
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return nil, err
		}
	}
	return all, tx.commit(ctx)
}

func (sqlite) faultOf(err error) fault {
	switch {
	case hasSQLiteCode(err, 5, "database is locked"), // SQLITE_BUSY, after the busy_timeout of the connection
		hasSQLiteCode(err, 6, " is locked"): // SQLITE_LOCKED, which connections with a shared cache get at once
		return conflict
	case hasSQLiteCode(err, 8, "readonly database"): // the file may be writable, or another one, for a new connection
		return readOnlyServer
	case strings.Contains(err.Error(), "no such table"): // the result code is that of any error in a statement
		return noTable
	}
	return 0
}

// hasSQLiteCode reports whether an error has a primary result code, or its text if the driver has
// no codes.
func hasSQLiteCode(err error, code int, text string) bool {
	var coded interface{ Code() int }
	if errors.As(err, &coded) {
		return coded.Code()&0xff == code
	}
	return strings.Contains(err.Error(), text)
}

// locate is for dialects with schemas.
func (sqlite) locate(_ context.Context, _ querier, o Options, _ bool) (Options, error) { return o, nil }

// checkSchema looks for the tables on two connections at a time. Each connection to ":memory:" has a
// database of its own, which would grant each lock once more.
func (d sqlite) checkSchema(ctx context.Context, db *sql.DB, t *texts) error {
	if db.Stats().MaxOpenConnections == 1 {
		return nil
	}
	for range 2 {
		c, err := db.Conn(ctx)
		if err != nil {
			return fmt.Errorf("sqlstore: look for the tables: %w", err)
		}
		defer func() { _ = c.Close() }()
		rows, err := c.QueryContext(ctx, t.read, []byte{})
		if err == nil {
			err = rows.Close()
		}
		switch {
		case err != nil && d.faultOf(err) == noTable:
			return errors.New("sqlstore: each connection has a database in memory of its own; use a file, or limit the *sql.DB to one connection with SetMaxOpenConns")
		case err != nil:
			return fmt.Errorf("sqlstore: look for the tables: %w", err)
		}
	}
	return nil
}
