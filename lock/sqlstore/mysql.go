// The dialect of MySQL and MariaDB.

package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// MySQL is the dialect of MariaDB from version 10.6 on and of MySQL, with tables of InnoDB. It is tested with MySQL 9.7.
// MySQL 8.0.12 does not suffice: it denies reads to a user who has the right to them, and a renewal waits for rows that others
// have locked. The store uses only statements that
// both have: no RETURNING, no FOR SHARE, and no locks by name (GET_LOCK), which belong to a session.
//
// The store works with or without the parameter clientFoundRows of the driver.
//
// The clock is UTC_TIMESTAMP, the start of a statement. UNIX_TIMESTAMP(SYSDATE(6)) would be
// the later instant at which it is evaluated, but goes back by one hour when the time zone of
// the session leaves summer time.
func MySQL() Dialect { return Dialect{mySQL{}} }

type mySQL struct{ standard }

func (mySQL) traits() traits { return traits{name: "MySQL", quote: "`", schemas: true, minConns: 2} }

// expressions uses the start of the statement. In a statement that waits for a row that is
// before the wait, and still later than the request was sent: a lease is never shorter than the
// client assumes, and never looks expired too early.
func (mySQL) expressions(Options) map[string]string {
	return map[string]string{
		"us":       "TIMESTAMPDIFF(MICROSECOND, '1970-01-01', UTC_TIMESTAMP(6))",
		"now":      "({us} DIV 1000)",
		"sync":     "(@@autocommit AND @@completion_type = 'NO_CHAIN')",
		"bounded":  "{sync}",
		"primary":  "FORCE INDEX (PRIMARY)",
		"hex":      "1 = 1",
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
	t.enter, _, _ = strings.Cut(t.enter, "ON CONFLICT")
	t.enter += `ON DUPLICATE KEY UPDATE expires = VALUES(expires), channel = VALUES(channel)`
	t.leave = `DELETE p FROM {places} p JOIN (SELECT lock_key FROM {locks} WHERE ` + heldByAnother + ` AND {sync} LIMIT 1 {lock}) AS k
		ON p.lock_key = k.lock_key WHERE p.owner = ?`
	t.setTombstone = `INSERT INTO {tombstones} (lock_key, owner, expires) VALUES (?, ?, ?)
		ON DUPLICATE KEY UPDATE expires = VALUES(expires)`

	t.sweepRows = `SELECT lock_key FROM {locks} WHERE lock_key >= ? AND lock_key <= ? AND kind = 0
		AND expires < {now} - ? AND queued_until < {now} AND refused_until < {now} ORDER BY lock_key FOR UPDATE SKIP LOCKED`
	t.mysql.keysOfGrants = `SELECT lock_key FROM {grants} FORCE INDEX (PRIMARY) WHERE lock_key IN (`
	t.mysql.deleteGrant = `DELETE FROM {grants} WHERE lock_key = ?`
	t.mysql.deleteLock = `DELETE FROM {locks} WHERE lock_key = ?`
	t.mysql.isHeld = `SELECT IF({sync}, count(*), -1) FROM {locks}
		WHERE lock_key = ? AND kind = 0 AND owner = ? AND token = ? AND expires >= {now}`

	// The assignments are made one after another, so the columns that the condition reads come last.
	t.saveState, _, _ = strings.Cut(t.saveState, "ON CONFLICT")
	t.saveState += strings.ReplaceAll(`ON DUPLICATE KEY UPDATE data = IF({late}, {states}.data, VALUES(data)),
		expires = IF({late}, {states}.expires, VALUES(expires)), number = IF({late}, {states}.number, VALUES(number)), token = VALUES(token)`,
		"{late}", "{states}.token = VALUES(token) AND {states}.number >= VALUES(number)")

	t.acquire = `UPDATE {locks} SET owner = ?, token = ?, expires = {now} + ?, metadata = ?
		WHERE lock_key = ? AND kind = 0 AND owner = coalesce(?, {empty}) AND token = ? AND expires = ?
			AND queued_until < {now} AND refused_until < {now} AND {sync}`
	// Without FORCE INDEX a list of keys may be looked up by reading the whole table, which waits for
	// rows of other keys. Only a SELECT can skip locked rows. The LIMIT keeps it a table of its own, which
	// the UPDATE may read.
	t.renew = `UPDATE {locks} l JOIN (SELECT lock_key FROM {locks} FORCE INDEX (PRIMARY)
			WHERE kind = 0 AND expires >= {now} AND {sync} AND {leases} ORDER BY lock_key LIMIT 1000000 FOR UPDATE SKIP LOCKED
		) AS k ON l.lock_key = k.lock_key SET l.expires = GREATEST(l.expires, LAST_INSERT_ID({now} + ?))`
	t.await = `UPDATE {locks} SET expires = GREATEST(expires, LAST_INSERT_ID({now} + ?))
		WHERE lock_key = ? AND owner = ? AND token = ? AND kind = 0 AND expires >= {now} AND {sync}`
	t.mysql.rows = `SELECT lock_key, kind, owner, token, expires, {now}, {sync} FROM {locks} FORCE INDEX (PRIMARY) WHERE lock_key IN (`
	t.mysql.read = `SELECT kind, owner, token, expires, queued_until, refused_until, {us} FROM {locks} WHERE lock_key = ?`

	t.extendQueues = `UPDATE {locks} l JOIN (
			SELECT lock_key FROM {locks} {primary} WHERE {sync} AND {list} ORDER BY lock_key LIMIT 1000000 FOR UPDATE SKIP LOCKED
		) AS k ON l.lock_key = k.lock_key SET l.queued_until = GREATEST(l.queued_until, {now} + {ms})`
	t.extendPlaces = `UPDATE {places} p JOIN (
			SELECT lock_key, owner FROM {places} {primary} WHERE {sync} AND {list} ORDER BY lock_key, owner LIMIT 1000000 FOR UPDATE SKIP LOCKED
		) AS k ON p.lock_key = k.lock_key AND p.owner = k.owner SET p.expires = {now} + {ms}`

	t.lockGrant = `SELECT token FROM {grants} WHERE lock_key = ? FOR UPDATE SKIP LOCKED`
	t.mysql.createGrant = `INSERT IGNORE INTO {grants} (lock_key, token) VALUES (?, 0)`
	t.mysql.saveGrant = `UPDATE {grants} SET token = ? WHERE lock_key = ?`
	t.guard = `SELECT token FROM {grants} WHERE lock_key = ? LOCK IN SHARE MODE`
	for _, text := range []*string{&t.setPlace, &t.enter, &t.saveState} { // NULL is an empty parameter with sql_mode EMPTY_STRING_IS_NULL
		*text = strings.NewReplacer("CAST(? AS {text})", "coalesce(CAST(? AS {text}), {empty})", "CAST(? AS {bytes}) FROM", "coalesce(CAST(? AS {bytes}), {empty}) FROM").Replace(*text)
	}
	for _, text := range t.all() {
		*text = pinned(*text)
	}
}

// pinned returns a statement to which the settings of the session do not apply that would refuse it or cut its result:
// MariaDB executes what looks like a comment, and MySQL takes a hint.
func pinned(text string) string {
	verb, rest, ok := strings.Cut(text, " ")
	if !ok {
		return text
	}
	const most = "18446744073709551615"
	return "/*M!100600 SET STATEMENT sql_safe_updates=0, sql_big_selects=1, sql_select_limit=" + most + " FOR */ " + verb +
		" /*+ SET_VAR(sql_safe_updates=0) SET_VAR(sql_big_selects=1) SET_VAR(sql_select_limit=" + most + ") */ " + rest
}

// mysqlTexts are the statements that only this dialect has. Those that end with an open bracket
// are followed by a list of keys.
type mysqlTexts struct {
	read   string // key
	isHeld string // key, owner, token
	rows   string

	createGrant  string // key
	saveGrant    string // token, key
	keysOfGrants string
	deleteGrant  string // key
	deleteLock   string // key
}

func (t *mysqlTexts) all() []*string {
	return []*string{&t.read, &t.isHeld, &t.rows, &t.createGrant, &t.saveGrant, &t.keysOfGrants, &t.deleteGrant, &t.deleteLock}
}

// begin finds out which setting is to blame if the session has a transaction, which a read of the same call or the
// commit before has begun.
func (d mySQL) begin(ctx context.Context, c *sql.Conn) (transaction, error) {
	tx, err := postgreSQL{}.begin(ctx, c) // also READ COMMITTED
	if err != nil && errorNumber(err) == 1568 {
		return nil, d.unfit(ctx, c)
	}
	return tx, err
}

// unfit returns what is wrong with a session whose statements would not be committed.
func (d mySQL) unfit(ctx context.Context, q querier) error {
	_, err := d.database(ctx, q)
	if err == nil {
		err = unfitError{errors.New("a connection of the *sql.DB has a transaction that the program has begun and not ended")}
	}
	return err
}

// database returns the current database, or an unfitError if the session has a setting with which locks fail later.
// A session with a clock of its own would grant leases that have ended for all others.
func (mySQL) database(ctx context.Context, q querier) (name sql.NullString, err error) {
	var autocommit bool
	var completion string
	var late int64
	err = q.QueryRowContext(ctx, pinned("SELECT @@autocommit, @@completion_type, ABS(TIMESTAMPDIFF(SECOND, NOW(), SYSDATE())), DATABASE()")).
		Scan(&autocommit, &completion, &late, &name)
	setting := ""
	switch {
	case err != nil:
		return name, err
	case !autocommit:
		return name, errNoAutocommit
	case completion != "NO_CHAIN":
		setting = "completion_type is " + completion + ", so a commit begins another transaction or ends the connection: set it to NO_CHAIN"
	case late > 60:
		setting = "timestamp is set, which stops the clock of the session: set it to DEFAULT"
	default:
		return name, nil
	}
	return name, unfitError{errors.New(setting)}
}

// locate takes the current database of the first session. Others may change that of theirs.
func (d mySQL) locate(ctx context.Context, q querier, o Options, _ bool) (Options, error) {
	name, err := d.database(ctx, q)
	switch {
	case err != nil || o.hasSchema():
		return o, err
	case !name.Valid:
		return o, errNoDatabase
	}
	return o.in(name.String), nil
}

var errNoDatabase = unfitError{errors.New("the session has no current database: name one in the data source, or in Options.Table")}

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
	n, err := affected(tx.ExecContext(ctx, t.acquire, []byte(r.Owner), next, ms(r.TTL), metadataOf(r), key, owner, token, expires))
	if err != nil || n == 0 {
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
	n, err := affected(tx.ExecContext(ctx, t.mysql.createGrant, key))
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
// its session. The number of changed rows may be less than that of the leases because a row is locked, has
// the new values already or is not held any more, so the rows are read then.
func (d mySQL) renew(ctx context.Context, c *sql.Conn, t *texts, leases []renewItem, wait bool) ([]found, error) {
	all := make([]found, len(leases))
	groups := make(map[int64][]int)
	for i, l := range leases {
		groups[l.ttl] = append(groups[l.ttl], i)
	}
	for ttl, group := range groups {
		result, err := d.extend(ctx, c, t, leases, group, ttl, wait)
		n, err := affected(result, err)
		switch {
		case err != nil:
			return nil, err
		case n < int64(len(group)):
			end, err := result.LastInsertId() // of the renewed leases; 0 if there is none
			if err != nil {
				return nil, err
			}
			err = d.findEach(ctx, c, t, leases, group, end, all)
			if err != nil {
				return nil, err
			}
		default:
			for _, i := range group {
				all[i] = foundRenewed
			}
		}
	}
	return all, nil
}

// extend extends the leases of a group, which have one TTL in ms.
func (mySQL) extend(ctx context.Context, c *sql.Conn, t *texts, leases []renewItem, group []int, ttl int64, wait bool) (sql.Result, error) {
	if wait {
		l := leases[group[0]]
		return c.ExecContext(ctx, t.await, ttl, l.key, l.owner, l.token)
	}
	var keys, grants []any
	for _, i := range group {
		keys = append(keys, leases[i].key)
		grants = append(grants, leases[i].key, leases[i].owner, leases[i].token)
	}
	const one = "(?,?,?),"
	where := "lock_key IN (" + marks(len(keys)) + " AND (lock_key, owner, token) IN (" + strings.TrimSuffix(strings.Repeat(one, len(keys)), ",") + ")"
	return c.ExecContext(ctx, strings.Replace(t.renew, "{leases}", where, 1), append(slices.Concat(keys, grants), ttl)...)
}

// findEach reads the rows of a group, without waiting for any, after extend. A lease that ends at the
// instant until which that has extended leases, or later, was renewed.
func (d mySQL) findEach(ctx context.Context, c *sql.Conn, t *texts, leases []renewItem, group []int, end int64, all []found) error {
	byKey := make(map[string][]int, len(group))
	keys := make([]any, 0, len(group))
	for _, i := range group {
		all[i] = foundMissing
		byKey[string(leases[i].key)] = append(byKey[string(leases[i].key)], i)
		keys = append(keys, leases[i].key)
	}
	var kind, token, expires, now int64
	var key, owner []byte
	var fit bool
	unfit := false
	err := eachRow(ctx, c, t.mysql.rows+marks(len(keys)), keys, []any{&key, &kind, &owner, &token, &expires, &now, &fit}, func() {
		unfit = unfit || !fit
		for _, i := range byKey[string(key)] {
			all[i] = foundIn(leases[i], kind, owner, token, expires, now)
			if all[i] == foundLocked && end > 0 && expires >= end {
				all[i] = foundRenewed
			}
		}
	})
	if err == nil && unfit {
		err = d.unfit(ctx, c)
	}
	return err
}

// sweepRows locks the rows that it deletes in both tables, and leaves those alone that others have
// locked. A grant locks the row in the table of locks first, so no row of a grant appears meanwhile.
func (d mySQL) sweepRows(ctx context.Context, c *sql.Conn, t *texts, first, last []byte, free int64) (int64, error) {
	tx, err := d.begin(ctx, c)
	if err != nil {
		return 0, err
	}
	defer tx.rollback()
	var key []byte
	var keys []any
	err = eachRow(ctx, tx, t.sweepRows, []any{first, last, free}, []any{&key}, func() { keys = append(keys, key) })
	if err != nil || len(keys) == 0 {
		return 0, err
	}
	guarded, text := make(map[string]bool), t.mysql.keysOfGrants+marks(len(keys))
	err = eachRow(ctx, tx, text, keys, []any{&key}, func() { guarded[string(key)] = true })
	if err == nil {
		err = eachRow(ctx, tx, text+" FOR UPDATE SKIP LOCKED", keys, []any{&key}, func() { delete(guarded, string(key)) })
	}
	if err != nil {
		return 0, err
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

// in also names the keys of pairs once more, by which the server finds the rows.
func (mySQL) in(rows [][][]byte) (string, []any) {
	var keys, pairs []any
	for i, row := range rows {
		if i == 0 || !slices.Equal(row[0], rows[i-1][0]) {
			keys = append(keys, row[0])
		}
		if len(row) == 2 {
			pairs = append(pairs, row[0], row[1])
		}
	}
	condition := "lock_key IN (" + marks(len(keys))
	if len(pairs) > 0 {
		condition += " AND (lock_key, owner) IN (" + strings.TrimSuffix(strings.Repeat("(?,?),", len(pairs)/2), ",") + ")"
	}
	return condition, append(keys, pairs...)
}

// marks returns n placeholders and the bracket that closes their list.
func marks(n int) string { return strings.TrimSuffix(strings.Repeat("?,", n), ",") + ")" }

func (mySQL) faultOf(err error) fault { return mysqlFaults[errorNumber(err)] }

var mysqlFaults = map[int]fault{
	1213: conflict, // a deadlock, which Galera also reports for a conflict with another node
	1205: conflict, // a lock that was waited for too long
	1020: conflict, // a row that has changed since the snapshot

	1290: readOnlyServer, // the server has read_only, as a replica has
	1792: readOnlyServer, // the transaction is read-only by default
	1836: readOnlyServer, // the server was started so
	1047: readOnlyServer, // a node that has left its Galera cluster

	1146: noTable, 1049: noTable, // the table, or its database
	1044: forbidden, 1142: forbidden, 1143: forbidden, // the database, the table or a column
	1050: exists,
}

// errorNumber returns the number of an error of the server, 0 if there is none. The store does not
// import the driver, so the number is that of a field Number or Code, or is taken from the text:
// "Error 1213 (40001): Deadlock found" of one driver, "#1213 error from MySQL server" of another.
func errorNumber(err error) int {
	for e := err; e != nil; e = errors.Unwrap(e) {
		v := reflect.Indirect(reflect.ValueOf(e))
		if v.Kind() != reflect.Struct {
			continue
		}
		for _, name := range []string{"Number", "Code"} {
			switch f := v.FieldByName(name); {
			case f.IsValid() && f.CanUint():
				return int(f.Uint())
			case f.IsValid() && f.CanInt():
				return int(f.Int())
			}
		}
	}
	if m := mysqlError.FindStringSubmatch(err.Error()); m != nil {
		n, _ := strconv.Atoi(m[1] + m[2])
		return n
	}
	return 0
}

var mysqlError = regexp.MustCompile(`(?i)\b(?:error|errno|code)[ :=#(]*(\d{4,5})\b|#(\d{4,5})\b`)
