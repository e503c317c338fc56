// The dialect of PostgreSQL.

package sqlstore

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// PostgreSQL is the dialect of PostgreSQL from version 14 on, by any driver that sends
// placeholders of the form $1. The store uses neither advisory locks nor anything else that
// belongs to a session, so it works behind PgBouncer in transaction mode. Older versions of
// PgBouncer do not support prepared statements; with pgx, the parameter
// default_query_exec_mode=exec of the DSN avoids them.
func PostgreSQL() Dialect { return Dialect{postgreSQL{}} }

type postgreSQL struct{}

func (postgreSQL) name() string               { return "PostgreSQL" }
func (postgreSQL) hasSchemas() bool           { return true }
func (postgreSQL) hasSynchronousCommit() bool { return true }
func (postgreSQL) hasMessages() bool          { return true }
func (postgreSQL) schema() string             { return "postgresql.sql" }
func (postgreSQL) quote(name string) string   { return `"` + strings.ReplaceAll(name, `"`, `""`) + `"` }
func (postgreSQL) minConns() int              { return 2 }
func (postgreSQL) placeholder(n int) string   { return "$" + strconv.Itoa(n) }

// expressions uses clock_timestamp, because now() is the start of the transaction. In a statement that waits for a row
// the clock may be read before it has waited: later than the request was sent in any case, so a
// lease is never shorter than the client assumes, and never looks expired too early.
func (postgreSQL) expressions(o Options) map[string]string {
	sync := "true"
	if o.SynchronousCommit != "" {
		sync = "(SELECT set_config('synchronous_commit', '" + o.SynchronousCommit + "', true)) <> ''"
	}
	return map[string]string{
		// A process that is paused within a transaction of the store must not keep the row locked. It must not
		// cost the holder its lease either, so the time is a third of what the lease has left.
		"bounded": "{sync} AND set_config('idle_in_transaction_session_timeout', CAST(CASE WHEN expires < {now} THEN {timeout} ELSE least({timeout}, greatest(" +
			strconv.FormatInt(ms(minIdle), 10) + ", (expires - {now}) / 3)) END AS text), true) <> ''",
		"primary":  "",
		"timed":    "{sync} AND set_config('idle_in_transaction_session_timeout', '{timeout}', true) <> ''",
		"timeout":  strconv.FormatInt(ms(o.Timeout), 10),
		"now":      "CAST(floor(extract(epoch FROM clock_timestamp()) * 1000) AS bigint)",
		"us":       "CAST(floor(extract(epoch FROM clock_timestamp()) * 1000000) AS bigint)",
		"sync":     sync,
		"hex":      "(SELECT set_config('bytea_output', 'hex', true)) <> ''",
		"floor_of": "0",
		"empty":    "decode('', 'hex')",
		"kept":     "decode('00', 'hex')",
		"bytes":    "bytea",
		"int":      "bigint",
		"text":     "text",
		"lock":     "FOR NO KEY UPDATE",
	}
}

// minIdle is a time for which a healthy process may be idle within a transaction.
const minIdle = time.Second

func (postgreSQL) adapt(t *texts) {
	// A transaction that guards the row has it FOR KEY SHARE, which only FOR UPDATE respects. The
	// row is locked FOR NO KEY UPDATE already when SKIP LOCKED is evaluated, so nothing but
	// guards can make it skip the row.
	t.lockGrant = `SELECT 1 FROM {locks} WHERE lock_key = ? FOR UPDATE SKIP LOCKED`
	t.guard = `SELECT 1 FROM {locks} WHERE lock_key = ? AND token = ? AND kind = 0
		AND owner <> {empty} AND owner <> {kept} AND expires >= {now} FOR KEY SHARE`
	t.sweepRows = `DELETE FROM {locks} WHERE lock_key IN (SELECT lock_key FROM {locks} WHERE lock_key >= ? AND lock_key <= ? AND kind = 0
		AND expires < {now} - ? AND queued_until < {now} AND refused_until < {now} ORDER BY lock_key FOR UPDATE SKIP LOCKED)`

	// The INSERT does nothing, and locks nothing, if the lock is seen to be taken by another.
	// The WHERE of its UPDATE is evaluated on the newest row, after waiting for it.
	t.acquire = `WITH seen AS (
			SELECT expires - {now} AS rest FROM {locks}
			WHERE lock_key = $1::bytea AND kind = 0 AND owner <> {empty} AND owner <> $2::bytea AND expires >= {now}
		), granted AS (
			INSERT INTO {locks} AS l (lock_key, kind, owner, token, expires, metadata, queued_until, refused_until)
			SELECT $1::bytea, 0, $2::bytea, {us}, {now} + $3::bigint, $4::bytea, 0, 0
			WHERE NOT EXISTS (SELECT FROM seen) AND {sync}
			ON CONFLICT (lock_key) DO UPDATE SET
				token    = CASE WHEN l.owner = excluded.owner AND l.expires >= {now} THEN l.token ELSE greatest(l.token + 1, {us}) END,
				expires  = CASE WHEN l.owner = excluded.owner AND l.expires >= {now} THEN greatest(l.expires, {now} + $3::bigint) ELSE {now} + $3::bigint END,
				metadata = CASE WHEN l.owner = excluded.owner AND l.expires >= {now} THEN l.metadata ELSE excluded.metadata END,
				owner    = excluded.owner
			WHERE l.kind = 0 AND (l.owner = excluded.owner AND l.expires >= {now}
				OR (l.owner = {empty} OR l.expires < {now}) AND l.queued_until < {now} AND l.refused_until < {now}
					AND EXISTS (SELECT FROM {locks} AS g WHERE g.lock_key = $1::bytea FOR UPDATE SKIP LOCKED))
			RETURNING token
		)
		SELECT token, 0 FROM granted UNION ALL SELECT 0, rest FROM seen`

	// A batch waits for no row: the transaction of one that stands still would take all leases of the
	// batch with it. A batch locks no row of another owner. The second SELECT reads the rows as they
	// were when the statement began, and says why a lease was not renewed: see found.
	t.renew = `WITH asked AS (
			SELECT * FROM unnest($1::text::bytea[], $2::text::bytea[], $3::text::bigint[], $4::text::bigint[])
				WITH ORDINALITY AS a (lock_key, owner, token, ttl, n)
		), locked AS MATERIALIZED (
			SELECT l.lock_key, a.ttl, a.n FROM asked a JOIN {locks} l
				ON l.lock_key = a.lock_key AND l.owner = a.owner AND l.token = a.token AND l.kind = 0
			ORDER BY l.lock_key FOR NO KEY UPDATE OF l SKIP LOCKED
		), renewed AS (
			UPDATE {locks} l SET expires = greatest(l.expires, {now} + k.ttl) FROM locked k
			WHERE l.lock_key = k.lock_key AND l.expires >= {now} AND {sync} RETURNING k.n
		)
		SELECT n, 1 FROM renewed UNION ALL
		SELECT a.n, CASE
			WHEN l.kind <> 0 OR l.owner = {empty} OR l.owner = {kept} OR l.expires < {now} THEN 3
			WHEN l.owner = a.owner AND l.token = a.token THEN 0
			WHEN l.owner IS NULL THEN 3
			ELSE 2 END
		FROM asked a LEFT JOIN {locks} l ON l.lock_key = a.lock_key WHERE a.n NOT IN (SELECT n FROM renewed)`
	t.await = strings.Replace(t.renew, " SKIP LOCKED", "", 1)
	t.release = `WITH asked AS (
			SELECT * FROM unnest($1::text::bytea[], $2::text::bytea[], $3::text::bigint[])
				WITH ORDINALITY AS a (lock_key, owner, keep, n)
		), locked AS MATERIALIZED (
			SELECT l.lock_key, a.keep, a.n FROM asked a JOIN {locks} l
				ON l.lock_key = a.lock_key AND l.owner = a.owner AND l.kind = 0
			ORDER BY l.lock_key FOR NO KEY UPDATE OF l SKIP LOCKED
		)
		UPDATE {locks} l SET owner = CASE WHEN k.keep > 0 THEN {kept} ELSE {empty} END,
			expires = {now} + k.keep, metadata = NULL FROM locked k
		WHERE l.lock_key = k.lock_key AND l.expires >= {now} AND l.queued_until < {now} AND {sync} RETURNING k.n`
	t.extendQueues = `UPDATE {locks} l SET queued_until = greatest(l.queued_until, {now} + CAST({ms} AS bigint)) FROM (
			SELECT lock_key FROM {locks} WHERE {list} ORDER BY lock_key FOR NO KEY UPDATE SKIP LOCKED
		) k WHERE l.lock_key = k.lock_key`
	t.extendPlaces = `UPDATE {places} p SET expires = {now} + CAST({ms} AS bigint) FROM (
			SELECT lock_key, owner FROM {places} WHERE {list} ORDER BY lock_key, owner FOR NO KEY UPDATE SKIP LOCKED
		) k WHERE p.lock_key = k.lock_key AND p.owner = k.owner`
	t.leave = `DELETE FROM {places} p USING (SELECT lock_key FROM {locks} WHERE ` + heldByAnother + ` AND {sync} LIMIT 1 {lock}) AS k
		WHERE p.lock_key = k.lock_key AND p.owner = ?`
	t.notify = `SELECT pg_notify(CAST(? AS text), CAST(? AS text))`
}

func (postgreSQL) begin(ctx context.Context, c *sql.Conn) (transaction, error) {
	tx, err := c.BeginTx(ctx, &sql.TxOptions{Isolation: sql.LevelReadCommitted})
	switch {
	case err == nil:
		return standardTx{tx}, nil
	case strings.Contains(err.Error(), "statement pooling mode"):
		return nil, unfitError{"the PgBouncer has pool_mode=statement, and the store needs transactions: set pool_mode=transaction", err}
	}
	return nil, err
}

// locate looks in all schemas: another client of a pooler may have changed the search_path of the session, and each
// user may have another one.
func (d postgreSQL) locate(ctx context.Context, q querier, o Options) (Options, error) {
	if o.hasSchema() {
		return o, nil
	}
	schemas, err := d.schemasWith(ctx, q, o)
	switch {
	case err != nil:
		return o, err
	case len(schemas) == 0:
		return o, missingError(o.Table + "_*")
	}
	return o.in(schemas[0]), nil
}

// schemasWith returns the one schema that has the table of the locks, if there is one.
func (postgreSQL) schemasWith(ctx context.Context, q querier, o Options) (schemas []string, err error) {
	rows, err := q.QueryContext(ctx, `SELECT CAST(n.nspname AS text) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relname = CAST($1 AS text) AND c.relkind IN ('r', 'p') AND c.relpersistence <> 't' ORDER BY 1`, o.Table+"_locks")
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var schema string
		if err := rows.Scan(&schema); err != nil {
			return nil, err
		}
		schemas = append(schemas, schema)
	}
	if len(schemas) > 1 {
		return nil, unfitError{text: fmt.Sprintf("the schemas %s have tables %s_*, and the search_path does not decide: name one, as in Options.Table %q",
			strings.Join(schemas, ", "), o.Table, schemas[0]+"."+o.Table)}
	}
	return schemas, rows.Err()
}

func (d postgreSQL) home(ctx context.Context, q querier, o Options) (string, error) {
	schemas, err := d.schemasWith(ctx, q, o)
	if err != nil || len(schemas) > 0 {
		return strings.Join(schemas, ""), err
	}
	var schema sql.NullString
	err = q.QueryRowContext(ctx, "SELECT CAST(current_schema() AS text)").Scan(&schema)
	if err == nil && !schema.Valid {
		err = unfitError{text: "the search_path names no schema that exists: name one in Options.Table"}
	}
	return schema.String, err
}

// standardTx is a transaction of database/sql.
type standardTx struct{ *sql.Tx }

func (t standardTx) commit(context.Context) error { return t.Commit() }
func (t standardTx) rollback()                    { _ = t.Rollback() }

func (postgreSQL) unguarded(ctx context.Context, tx querier, t *texts, key []byte) (bool, error) {
	return hasRow(tx.QueryRowContext(ctx, t.lockGrant, key))
}

func (postgreSQL) sweepRows(ctx context.Context, c *sql.Conn, t *texts, first, last []byte, free int64) (int64, error) {
	return affected(c.ExecContext(ctx, t.sweepRows, first, last, free))
}

func (postgreSQL) granted(context.Context, querier, *texts, []byte, int64) error { return nil }

func (postgreSQL) forget(context.Context, querier, *texts, []byte) error { return nil }

func (postgreSQL) guard(ctx context.Context, tx querier, t *texts, key []byte, token int64) (bool, error) {
	return hasRow(tx.QueryRowContext(ctx, t.guard, key, token))
}

// hasRow reports whether there is a row.
func hasRow(row *sql.Row) (bool, error) {
	var one int
	err := row.Scan(&one)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

func (postgreSQL) acquire(ctx context.Context, c *sql.Conn, t *texts, r driver.Request) (answer, bool, error) {
	var token, left int64
	err := c.QueryRowContext(ctx, t.acquire, []byte(r.Key), []byte(r.Owner), ms(r.TTL), metadataOf(r)).Scan(&token, &left)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return answer{}, false, nil
	case err != nil:
		return answer{}, false, err
	case token > 0:
		return answer{granted: true, token: token}, true, nil
	}
	return answer{left: max(left, 1)}, true, nil
}

func (postgreSQL) renew(ctx context.Context, c *sql.Conn, t *texts, leases []renewItem, wait bool) ([]found, error) {
	var keys, owners, tokens, ttls arrayText
	for _, l := range leases {
		keys.addBytes(l.key)
		owners.addBytes(l.owner)
		tokens.addInt(l.token)
		ttls.addInt(l.ttl)
	}
	text := t.renew
	if wait {
		text = t.await
	}
	all := make([]found, len(leases))
	rows, err := c.QueryContext(ctx, text, keys.end(), owners.end(), tokens.end(), ttls.end())
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var n int
		var f found
		if err := rows.Scan(&n, &f); err != nil {
			return nil, err
		}
		all[n-1] = f
	}
	return all, rows.Err()
}

func (postgreSQL) release(ctx context.Context, c *sql.Conn, t *texts, leases []releaseItem, released func(i int)) error {
	var keys, owners, keeps arrayText
	for _, l := range leases {
		keys.addBytes(l.key)
		owners.addBytes(l.owner)
		keeps.addInt(l.keep)
	}
	rows, err := c.QueryContext(ctx, t.release, keys.end(), owners.end(), keeps.end())
	if err != nil {
		return err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var n int
		if err := rows.Scan(&n); err != nil {
			return err
		}
		released(n - 1)
	}
	return rows.Err()
}

func (postgreSQL) in(rows [][][]byte) (string, []any) {
	columns := make([]arrayText, len(rows[0]))
	for _, row := range rows {
		for i, value := range row {
			columns[i].addBytes(value)
		}
	}
	if len(columns) == 1 {
		return "lock_key = ANY($1::text::bytea[])", []any{columns[0].end()}
	}
	return "(lock_key, owner) IN (SELECT * FROM unnest($1::text::bytea[], $2::text::bytea[]))", []any{columns[0].end(), columns[1].end()}
}

func (postgreSQL) update(ctx context.Context, c *sql.Conn, text string, args ...any) (int64, error) {
	return affected(c.ExecContext(ctx, text, args...))
}

// wantsRetry implements dialect: serialization failures, deadlocks, and transactions that were idle for too
// long.
func (postgreSQL) wantsRetry(err error) bool { return hasState(err, "40001", "40P01", "25P03") }

// isReadOnly implements dialect: a server in recovery, or a session that is read-only by default.
func (postgreSQL) isReadOnly(err error) bool { return hasState(err, "25006") }

// hasNoTable implements dialect: the table or its schema.
func (postgreSQL) hasNoTable(err error) bool { return hasState(err, "42P01", "3F000") }

func (postgreSQL) isForbidden(err error) bool { return hasState(err, "42501") }

func (postgreSQL) checkSchema(context.Context, *sql.DB, *texts) error { return nil }

// existsAlready implements dialect: the table, or its type, or its name in the catalog.
func (postgreSQL) existsAlready(err error) bool { return hasState(err, "42P07", "42710", "23505") }

// hasState reports whether an error of any driver has one of some SQLSTATE codes.
func hasState(err error, codes ...string) bool {
	var state interface{ SQLState() string }
	return errors.As(err, &state) && slices.Contains(codes, state.SQLState())
}

// arrayText is the text of a PostgreSQL array, which every driver can send.
type arrayText []byte

func (a *arrayText) next() {
	if len(*a) == 0 {
		*a = append(*a, '{')
	} else {
		*a = append(*a, ',')
	}
}

func (a *arrayText) addBytes(b []byte) {
	a.next()
	*a = append(*a, `\\x`...)
	*a = hex.AppendEncode(*a, b)
}

func (a *arrayText) addInt(n int64) {
	a.next()
	*a = strconv.AppendInt(*a, n, 10)
}

func (a *arrayText) end() string { return string(append(*a, '}')) }
