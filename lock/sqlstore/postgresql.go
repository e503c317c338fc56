// The dialect of PostgreSQL.

package sqlstore

import (
	"context"
	"database/sql"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// PostgreSQL is the dialect of PostgreSQL from version 14 on, by any driver that sends
// placeholders of the form $1. Older versions of PgBouncer do not support prepared statements; with pgx, the parameter
// default_query_exec_mode=exec of the DSN avoids them.
func PostgreSQL() Dialect { return Dialect{postgreSQL{}} }

type postgreSQL struct{ standard }

func (postgreSQL) traits() traits {
	return traits{name: "PostgreSQL", quote: `"`, schemas: true, synchronousCommit: true, messages: true, minConns: 2}
}

func (postgreSQL) placeholder(n int) string { return "$" + strconv.Itoa(n) }

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
	// were when the statement began, and shows why a lease was not renewed: see found.
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
		return nil, unfitError{fmt.Errorf("the PgBouncer has pool_mode=statement, and the store needs transactions: set pool_mode=transaction: %w", err)}
	}
	return nil, err
}

// locate looks in all schemas: another client of a pooler may have changed the search_path of the session, and each
// user may have another one.
func (d postgreSQL) locate(ctx context.Context, q querier, o Options, create bool) (Options, error) {
	if o.hasSchema() {
		return o, nil
	}
	schemas, err := d.schemasWith(ctx, q, o)
	switch {
	case err != nil:
		return o, err
	case len(schemas) > 0:
		return o.in(schemas[0]), nil
	case !create:
		return o, missingError(o.Table + "_*")
	}
	var schema sql.NullString
	err = q.QueryRowContext(ctx, "SELECT CAST(current_schema() AS text)").Scan(&schema)
	if err == nil && !schema.Valid {
		err = unfitError{errors.New("the search_path names no schema that exists: name one in Options.Table")}
	}
	return o.in(schema.String), err
}

// schemasWith returns the one schema that has the table of the locks, if there is one.
func (postgreSQL) schemasWith(ctx context.Context, q querier, o Options) (schemas []string, err error) {
	var schema string
	err = eachRow(ctx, q, `SELECT CAST(n.nspname AS text) FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
		WHERE c.relname = CAST($1 AS text) AND c.relkind IN ('r', 'p') AND c.relpersistence <> 't' ORDER BY 1`, []any{o.Table + "_locks"}, []any{&schema}, func() {
		schemas = append(schemas, schema)
	})
	if len(schemas) > 1 {
		return nil, unfitError{fmt.Errorf("the schemas %s have tables %s_*, and the search_path does not decide: name one, as in Options.Table %q",
			strings.Join(schemas, ", "), o.Table, schemas[0]+"."+o.Table)}
	}
	return schemas, err
}

// standardTx is a transaction of database/sql.
type standardTx struct{ *sql.Tx }

func (t standardTx) commit(context.Context) error { return t.Commit() }
func (t standardTx) rollback()                    { _ = t.Rollback() }

func (postgreSQL) unguarded(ctx context.Context, tx querier, t *texts, key []byte) (bool, error) {
	return hasRow(tx.QueryRowContext(ctx, t.lockGrant, key))
}

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
	var n int
	var f found
	args := []any{keys.end(), owners.end(), tokens.end(), ttls.end()}
	err := eachRow(ctx, c, text, args, []any{&n, &f}, func() { all[n-1] = f })
	return all, err
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

func (postgreSQL) faultOf(err error) fault {
	var of interface{ SQLState() string } // an error of any driver
	if !errors.As(err, &of) {
		return 0
	}
	return postgresFaults[of.SQLState()]
}

var postgresFaults = map[string]fault{
	"40001": conflict, "40P01": conflict, // serialization failures, deadlocks
	"25P03": conflict,                  // the transaction was idle for too long
	"25006": readOnlyServer,            // in recovery, or the session is read-only by default
	"42P01": noTable, "3F000": noTable, // the table, or its schema
	"42501": forbidden,
	"42P07": exists, "42710": exists, "23505": exists, // the table, or its type, or its name in the catalog
	"26000": otherStatement, "42P05": otherStatement,
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
