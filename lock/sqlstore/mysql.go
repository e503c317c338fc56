package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// MySQL is the dialect of MariaDB from version 10.6 on and of MySQL from version 8.0.1 on, with
// tables of InnoDB. The tests of this package use MariaDB. The store uses only statements that
// both have: no RETURNING, no FOR SHARE, and no locks by name (GET_LOCK), which belong to a session.
//
// The store works with any sql_mode, time zone and default isolation of the sessions, and with
// or without the parameter clientFoundRows of the driver. Acquisitions fail if autocommit is off. Its
// transactions are READ COMMITTED, so the binary log must not have the format STATEMENT. With
// github.com/go-sql-driver/mysql the parameter interpolateParams=true saves the round trips that
// prepare statements.
//
// The clock is UTC_TIMESTAMP, the start of a statement. UNIX_TIMESTAMP(SYSDATE(6)) would be
// the later instant at which it is evaluated, but goes back by one hour when the time zone of
// the session leaves summer time.
func MySQL() Dialect { return Dialect{mySQL{}} }

type mySQL struct{}

func (mySQL) name() string               { return "MySQL" }
func (mySQL) hasSchemas() bool           { return true }
func (mySQL) hasSynchronousCommit() bool { return false }
func (mySQL) hasMessages() bool          { return false }
func (mySQL) schema() string             { return "mysql.sql" }
func (mySQL) placeholder(int) string     { return "?" }

// expressions uses the start of the statement. In a statement that waits for a row that is
// before the wait, and still later than the request was sent: a lease is never shorter than the
// client assumes, and never looks expired too early.
func (mySQL) expressions(Options) map[string]string {
	return map[string]string{
		"us":       "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))",
		"now":      "({us} DIV 1000)",
		"sync":     "1",
		"bounded":  "@@autocommit",
		"floor_of": "0",
		"empty":    "X''",
		"kept":     "X'00'",
		"bytes":    "BINARY",
		"int":      "SIGNED",
		"text":     "BINARY",
		"lock":     "FOR UPDATE",
	}
}

func (mySQL) adapt(t *texts) {
	t.createRow = `INSERT IGNORE INTO {locks} (lock_key, kind, owner, token, expires, metadata, queued_until, refused_until)
		VALUES (?, 0, {empty}, 0, {now}, NULL, 0, 0)`
	t.setPlace, _, _ = strings.Cut(t.setPlace, "ON CONFLICT")
	t.setPlace += `ON DUPLICATE KEY UPDATE expires = VALUES(expires), channel = VALUES(channel)`
	t.setTombstone = `INSERT INTO {tombstones} (lock_key, owner, expires) VALUES (?, ?, ?)
		ON DUPLICATE KEY UPDATE expires = VALUES(expires)`

	t.setMetadata = `UPDATE {locks} SET metadata = ?
		WHERE lock_key = ? AND kind = 0 AND owner = ? AND token = ? AND expires >= {now}`

	t.sweepRows = `SELECT lock_key FROM {locks} WHERE lock_key > ? AND lock_key <= ? AND kind = 0
		AND expires < {now} - ? AND queued_until < {now} AND refused_until < {now} ORDER BY lock_key FOR UPDATE SKIP LOCKED`
	t.mysql.keysOfGrants = `SELECT lock_key FROM {grants} FORCE INDEX (PRIMARY) WHERE lock_key IN (`
	t.mysql.deleteGrant = `DELETE FROM {grants} WHERE lock_key = ?`
	t.mysql.deleteLock = `DELETE FROM {locks} WHERE lock_key = ?`
	t.mysql.isHeld = `SELECT count(*) FROM {locks}
		WHERE lock_key = ? AND kind = 0 AND owner = ? AND token = ? AND expires >= {now}`

	t.acquire = `UPDATE {locks} SET owner = ?, token = ?, expires = {now} + ?, metadata = ?
		WHERE lock_key = ? AND kind = 0 AND owner = ? AND token = ? AND expires = ?
			AND queued_until < {now} AND refused_until < {now}`
	// Without FORCE INDEX a list of keys may be looked up by reading the whole table, which waits for
	// rows of other keys.
	t.renew = `UPDATE {locks} FORCE INDEX (PRIMARY) SET expires = GREATEST(expires, {now} + ?)
		WHERE kind = 0 AND expires >= {now} AND lock_key IN (`
	t.mysql.held = `SELECT lock_key, owner, token FROM {locks} FORCE INDEX (PRIMARY) WHERE kind = 0 AND expires >= {now} AND lock_key IN (`
	t.mysql.lockMany = `SELECT lock_key, owner, token FROM {locks} FORCE INDEX (PRIMARY)
		WHERE kind = 0 AND expires >= {now} AND queued_until < {now} AND lock_key IN (`
	t.mysql.end = `UPDATE {locks} FORCE INDEX (PRIMARY) SET owner = CASE WHEN ? > 0 THEN {kept} ELSE {empty} END, expires = {now} + ?, metadata = NULL
		WHERE lock_key IN (`
	t.release = t.mysql.end + `?) AND owner = ? AND kind = 0 AND expires >= {now} AND queued_until < {now}`
	t.mysql.read = `SELECT kind, owner, token, expires, queued_until, refused_until, {us} FROM {locks} WHERE lock_key = ?`

	t.lockGrant = `SELECT token FROM {grants} WHERE lock_key = ? FOR UPDATE SKIP LOCKED`
	t.mysql.createGrant = `INSERT IGNORE INTO {grants} (lock_key, token) VALUES (?, 0)`
	t.mysql.saveGrant = `UPDATE {grants} SET token = ? WHERE lock_key = ?`
	t.guard = `SELECT token FROM {grants} WHERE lock_key = ? LOCK IN SHARE MODE`
}

// mysqlTexts are the statements that only this dialect has. Those that end with an open bracket
// are followed by a list of keys.
type mysqlTexts struct {
	read     string // key
	isHeld   string // key, owner, token
	held     string
	lockMany string
	end      string // ms, ms

	createGrant  string // key
	saveGrant    string // token, key
	keysOfGrants string
	deleteGrant  string // key
	deleteLock   string // key
}

func (t *mysqlTexts) all() []*string {
	return []*string{&t.read, &t.isHeld, &t.held, &t.lockMany, &t.end, &t.createGrant, &t.saveGrant, &t.keysOfGrants, &t.deleteGrant, &t.deleteLock}
}

// begin returns errNoAutocommit if a read of the same call has begun a transaction.
func (mySQL) begin(ctx context.Context, c *sql.Conn) (transaction, error) {
	tx, err := postgreSQL{}.begin(ctx, c) // also READ COMMITTED
	if err != nil && errorNumber(err) == 1568 {
		return nil, errNoAutocommit
	}
	return tx, err
}

// acquire reads the row without locking it. If the lock is free, a transaction compares what was
// read and writes.
func (d mySQL) acquire(ctx context.Context, c *sql.Conn, t *texts, r driver.Request) (answer, bool, error) {
	key := []byte(r.Key)
	var kind, token, expires, queuedUntil, refusedUntil, us int64
	var owner []byte
	err := c.QueryRowContext(ctx, t.mysql.read, key).Scan(&kind, &owner, &token, &expires, &queuedUntil, &refusedUntil, &us)
	now := us / 1000
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return answer{}, false, nil
	case err != nil:
		return answer{}, false, err
	case kind != 0 || string(owner) == r.Owner:
		return answer{}, false, nil
	case len(owner) > 0 && expires >= now:
		return answer{left: max(expires-now, 1)}, true, nil
	case queuedUntil >= now || refusedUntil >= now:
		return answer{}, false, nil
	}
	tx, err := d.begin(ctx, c)
	if err != nil {
		return answer{}, false, err
	}
	defer tx.rollback()
	next := max(token+1, us)
	result, err := tx.ExecContext(ctx, t.acquire, []byte(r.Owner), next, ms(r.TTL), metadataOf(r), key, owner, token, expires)
	if err != nil {
		return answer{}, false, err
	}
	if n, err := result.RowsAffected(); err != nil || n == 0 {
		return answer{}, false, err
	}
	if ok, err := d.unguarded(ctx, tx, t, key); err != nil || !ok {
		return answer{}, err == nil, err
	}
	if err := d.granted(ctx, tx, t, key, next); err != nil {
		return answer{}, false, err
	}
	return answer{granted: true, token: next}, true, tx.commit(ctx)
}

// unguarded locks the row of the key in the table of grants, and makes one if there is none. A
// row that is there and cannot be locked is guarded, because other grants of the key wait for
// the row in the table of locks.
func (mySQL) unguarded(ctx context.Context, tx querier, t *texts, key []byte) (bool, error) {
	var token int64
	err := tx.QueryRowContext(ctx, t.lockGrant, key).Scan(&token)
	if !errors.Is(err, sql.ErrNoRows) {
		return err == nil, err
	}
	result, err := tx.ExecContext(ctx, t.mysql.createGrant, key)
	if err != nil {
		return false, err
	}
	n, err := result.RowsAffected()
	return n > 0, err
}

func (mySQL) granted(ctx context.Context, tx querier, t *texts, key []byte, token int64) error {
	_, err := tx.ExecContext(ctx, t.mysql.saveGrant, token, key)
	return err
}

func (d mySQL) forget(ctx context.Context, tx querier, t *texts, key []byte) error {
	if ok, err := d.unguarded(ctx, tx, t, key); err != nil || !ok {
		return err
	}
	return d.granted(ctx, tx, t, key, 0)
}

// guard does not read the table of locks: a transaction with an old snapshot would see an old
// row, and one that is SERIALIZABLE would lock it against renewals.
func (mySQL) guard(ctx context.Context, tx querier, t *texts, key []byte, token int64) (bool, error) {
	var last int64
	err := tx.QueryRowContext(ctx, t.guard, key).Scan(&last)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return last == token, err
}

// renew is one statement for each TTL. It is no transaction: a process that is paused between two
// statements of one would keep the rows locked, and with them its locks, until the server ends
// its session. The number of changed rows may be less than that of the leases because a row has
// the new values already, so the rows are read then. A lease that was not found by the first
// statement is not held later either.
func (d mySQL) renew(ctx context.Context, c *sql.Conn, t *texts, leases []renewItem, renewed func(i int)) error {
	groups := make(map[int64][]int)
	for i, l := range leases {
		groups[l.ttl] = append(groups[l.ttl], i)
	}
	for ttl, group := range groups {
		var keys, grants []any
		for _, i := range group {
			keys = append(keys, leases[i].key)
			grants = append(grants, leases[i].key, leases[i].owner, leases[i].token)
		}
		where := marks(len(keys)) + " AND (lock_key, owner, token) IN (" + strings.Repeat("(?,?,?),", len(keys)-1) + "(?,?,?))"
		args := slices.Concat(keys, grants)
		n, err := affected(c.ExecContext(ctx, t.renew+where, slices.Concat([]any{ttl}, args)...))
		if err != nil {
			return err
		}
		if n < int64(len(group)) {
			held, err := grantsOf(c.QueryContext(ctx, t.mysql.held+where, args...))
			if err != nil {
				return err
			}
			group = slices.DeleteFunc(group, func(i int) bool {
				l := leases[i]
				return held[string(l.key)] != mysqlGrant{string(l.owner), l.token}
			})
		}
		for _, i := range group {
			renewed(i)
		}
	}
	return nil
}

// release is one statement for one lease: each row that matches changes its owner, so the number of
// changed rows is right. Several leases are a transaction, because the number would not say which
// ones. It locks the rows in the order of their keys, so that no two transactions wait for each other.
func (d mySQL) release(ctx context.Context, c *sql.Conn, t *texts, leases []releaseItem, released func(i int)) error {
	if len(leases) == 1 {
		l := leases[0]
		n, err := affected(c.ExecContext(ctx, t.release, l.keep, l.keep, l.key, l.owner))
		if err == nil && n > 0 {
			released(0)
		}
		return err
	}
	tx, err := d.begin(ctx, c)
	if err != nil {
		return err
	}
	defer tx.rollback()
	keys := make([]any, len(leases))
	for i, l := range leases {
		keys[i] = l.key
	}
	held, err := grantsOf(tx.QueryContext(ctx, t.mysql.lockMany+marks(len(keys))+" ORDER BY lock_key FOR UPDATE", keys...))
	if err != nil {
		return err
	}
	var found []int
	groups := make(map[int64][]any)
	for i, l := range leases {
		if held[string(l.key)].owner == string(l.owner) {
			groups[l.keep] = append(groups[l.keep], l.key)
			found = append(found, i)
		}
	}
	for keep, group := range groups {
		if _, err := tx.ExecContext(ctx, t.mysql.end+marks(len(group)), append([]any{keep, keep}, group...)...); err != nil {
			return err
		}
	}
	if err := tx.commit(ctx); err != nil {
		return err
	}
	for _, i := range found {
		released(i)
	}
	return nil
}

// mysqlGrant is the owner and token of a row.
type mysqlGrant struct {
	owner string
	token int64
}

// grantsOf returns the grants that a query has found, by key.
func grantsOf(rows *sql.Rows, err error) (map[string]mysqlGrant, error) {
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	grants := make(map[string]mysqlGrant)
	for rows.Next() {
		var key, owner []byte
		var token int64
		if err := rows.Scan(&key, &owner, &token); err != nil {
			return nil, err
		}
		grants[string(key)] = mysqlGrant{string(owner), token}
	}
	return grants, rows.Err()
}

// sweepRows locks the rows that it deletes in both tables, and leaves those alone that others have
// locked. A grant locks the row in the table of locks first, so no row of a grant appears meanwhile.
func (d mySQL) sweepRows(ctx context.Context, c *sql.Conn, t *texts, after, last []byte, free int64) (int64, error) {
	tx, err := d.begin(ctx, c)
	if err != nil {
		return 0, err
	}
	defer tx.rollback()
	keys, err := keysOf(tx.QueryContext(ctx, t.sweepRows, after, last, free))
	if err != nil || len(keys) == 0 {
		return 0, err
	}
	grants, err := keysOf(tx.QueryContext(ctx, t.mysql.keysOfGrants+marks(len(keys)), keys...))
	if err != nil {
		return 0, err
	}
	unguarded, err := keysOf(tx.QueryContext(ctx, t.mysql.keysOfGrants+marks(len(keys))+" FOR UPDATE SKIP LOCKED", keys...))
	if err != nil {
		return 0, err
	}
	guarded := setOf(grants)
	for _, key := range unguarded {
		delete(guarded, string(key.([]byte)))
	}
	keys = slices.DeleteFunc(keys, func(key any) bool { return guarded[string(key.([]byte))] })
	if len(keys) == 0 {
		return 0, nil
	}
	for _, key := range keys { // a DELETE of a list may read the whole table, and wait for guarded rows
		for _, text := range []string{t.mysql.deleteGrant, t.mysql.deleteLock} {
			if _, err := tx.ExecContext(ctx, text, key); err != nil {
				return 0, err
			}
		}
	}
	return int64(len(keys)), tx.commit(ctx)
}

// keysOf returns the keys that a query has found, each as a []byte.
func keysOf(rows *sql.Rows, err error) (keys []any, _ error) {
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var key []byte
		if err := rows.Scan(&key); err != nil {
			return nil, err
		}
		keys = append(keys, key)
	}
	return keys, rows.Err()
}

// setOf returns a set of keys.
func setOf(keys []any) map[string]bool {
	set := make(map[string]bool, len(keys))
	for _, key := range keys {
		set[string(key.([]byte))] = true
	}
	return set
}

// marks returns n placeholders and the bracket that closes their list.
func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?,", n), ",") + ")" }

// wantsRetry implements dialect: a deadlock, which Galera also reports for a conflict with
// another node; a lock that was waited for too long; a row that has changed since the snapshot.
func (mySQL) wantsRetry(err error) bool {
	n := errorNumber(err)
	return n == 1213 || n == 1205 || n == 1020
}

// isReadOnly implements dialect: a server with read_only, as a replica has; a transaction that is
// read-only by default; a server that was started so; a node that has left its Galera cluster.
func (mySQL) isReadOnly(err error) bool {
	n := errorNumber(err)
	return n == 1290 || n == 1792 || n == 1836 || n == 1047
}

// existsAlready reports whether another process has created a table at the same time.
func (mySQL) existsAlready(err error) bool { return errorNumber(err) == 1050 }

// errorNumber returns the number of an error of the server, 0 if there is none. The store does not
// import the driver, so the number is taken from the text: "Error 1213 (40001): Deadlock found" of
// one driver, "ERROR 1213 (40001): Deadlock found" of another.
func errorNumber(err error) int {
	if m := mysqlError.FindStringSubmatch(err.Error()); m != nil {
		n, _ := strconv.Atoi(m[1])
		return n
	}
	return 0
}

var mysqlError = regexp.MustCompile(`(?i)\berror (\d{4,5})\b`)
