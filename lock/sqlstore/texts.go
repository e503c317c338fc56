package sqlstore

import "strings"

// texts are the statements of a store. Question marks stand for parameters, in the order in which
// the comments name them. Names in braces stand for tables and for expressions of the dialect:
//
//	{now}      the clock of the database, in ms; {us} in µs
//	{sync}     true; a side effect applies Options.SynchronousCommit to the transaction
//	{bounded}  the same, and bounds how long the transaction may be idle; in MySQL autocommit, which must be on
//	{floor_of} a token that was granted to any key, below which no token of a new row may be
//	{empty}    the owner of a free lock; {kept} that of a lock that is kept taken by nobody
//	{bytes}, {int}, {text} types for CAST
//	{lock}     the end of a SELECT that locks its row, and lets others refer to its key
type texts struct {
	lockRow      string // key
	createRow    string // key
	saveRow      string // owner, token, expires, metadata, queued until, refused until, key
	look         string // key, owner, now, key, now
	setPlace     string // key, owner, expires, metadata, channel, key
	ahead        string // key, now, key, owner
	removePlaces string // key, the last place
	removePlace  string // key, owner

	setTombstone     string // key, owner, expires
	removeTombstones string // key, now

	acquire string // of the dialect
	seen    string // key, owner
	renew   string // of the dialect
	release string // of the dialect
	explain string // key

	guard     string // key, token; in MySQL only the key
	lockGrant string // key; see dialect.unguarded

	setMetadata string // metadata, key, owner, token
	inspect     string // key, key, key, key
	list        string // after this key, from this key, before this key
	notify      string // channel, text; empty if the dialect has no messages

	sweepPage       string // after this key
	sweepRows       string // after this key, to this key, ms since they have been free
	sweepPlaces     string // ms since they have ended
	sweepTombstones string

	mysql mysqlTexts
}

// pageSize is how many rows one statement of List and Sweep reads.
const pageSize = 1000

// commonTexts returns the statements that most dialects can use.
func commonTexts() texts {
	return texts{
		lockRow: `SELECT kind, owner, token, expires, metadata, queued_until, refused_until, {us}, {floor_of}, {bounded}
			FROM {locks} WHERE lock_key = ? {lock}`,
		createRow: `INSERT INTO {locks} (lock_key, kind, owner, token, expires, metadata, queued_until, refused_until)
			VALUES (?, 0, {empty}, 0, {now}, NULL, 0, 0) ON CONFLICT (lock_key) DO NOTHING`,
		saveRow: `UPDATE {locks} SET owner = ?, token = ?, expires = ?, metadata = ?, queued_until = ?, refused_until = ?
			WHERE lock_key = ?`,

		// A statement of its own, after lockRow: a statement that waits for a row does not see
		// what others have committed to other tables meanwhile.
		look: `SELECT (SELECT count(*) FROM {tombstones} WHERE lock_key = ? AND owner = ? AND expires >= ?),
				p.place, p.owner, p.expires, p.metadata, p.channel
			FROM (SELECT 1 AS one) AS one LEFT JOIN (
				SELECT place, owner, expires, metadata, channel FROM {places}
				WHERE lock_key = ? AND expires >= ? ORDER BY place LIMIT 1
			) AS p ON 1 = 1`,
		setPlace: `INSERT INTO {places} (lock_key, place, owner, expires, metadata, channel)
			SELECT CAST(? AS {bytes}), coalesce(max(place), 0) + 1, CAST(? AS {bytes}), CAST(? AS {int}), CAST(? AS {bytes}), CAST(? AS {text})
			FROM {places} WHERE lock_key = ?
			ON CONFLICT (lock_key, owner) DO UPDATE SET expires = excluded.expires, channel = excluded.channel`,
		ahead: `SELECT count(*) FROM {places} WHERE lock_key = ? AND expires >= ?
			AND place < (SELECT place FROM {places} WHERE lock_key = ? AND owner = ?)`,
		removePlaces: `DELETE FROM {places} WHERE lock_key = ? AND place <= ?`,
		removePlace:  `DELETE FROM {places} WHERE lock_key = ? AND owner = ?`,

		setTombstone: `INSERT INTO {tombstones} (lock_key, owner, expires) VALUES (?, ?, ?)
			ON CONFLICT (lock_key, owner) DO UPDATE SET expires = excluded.expires`,
		removeTombstones: `DELETE FROM {tombstones} WHERE lock_key = ? AND expires < ?`,

		seen: `SELECT expires - {now} FROM {locks}
			WHERE lock_key = ? AND kind = 0 AND owner <> {empty} AND owner <> ? AND expires >= {now}`,
		explain: `SELECT count(*) FROM {locks} WHERE lock_key = ? AND kind = 0 AND owner <> {empty} AND owner <> {kept} AND expires >= {now}`,

		setMetadata: `UPDATE {locks} SET metadata = ?
			WHERE lock_key = ? AND kind = 0 AND owner = ? AND token = ? AND expires >= {now} AND {sync}`,
		inspect: `SELECT l.kind, l.owner, l.token, l.expires, l.metadata, {now},
				(SELECT count(*) FROM {places} WHERE lock_key = ? AND expires >= {now}), p.owner, p.metadata
			FROM (SELECT 1 AS one) AS one LEFT JOIN (SELECT * FROM {locks} WHERE lock_key = ?) AS l ON 1 = 1
			LEFT JOIN (
				SELECT place, owner, metadata FROM {places} WHERE lock_key = ? AND expires >= {now} ORDER BY place LIMIT 100
			) AS p ON 1 = 1 ORDER BY p.place`,
		list: `SELECT lock_key, CASE WHEN kind = 0 AND owner <> {empty} AND expires >= {now} THEN 1 ELSE 0 END
			FROM {locks} WHERE lock_key > ? AND lock_key >= ? AND lock_key < ? ORDER BY lock_key LIMIT 1000`,

		sweepPage: `SELECT lock_key FROM {locks} WHERE lock_key > ? ORDER BY lock_key LIMIT 1 OFFSET 999`,
		sweepRows: `DELETE FROM {locks} WHERE lock_key > ? AND lock_key <= ? AND kind = 0
			AND expires < {now} - ? AND queued_until < {now} AND refused_until < {now}`,
		sweepPlaces:     `DELETE FROM {places} WHERE expires < {now} - ?`,
		sweepTombstones: `DELETE FROM {tombstones} WHERE expires < {now}`,
	}
}

// newTexts returns the statements of a dialect with the names of the tables.
func newTexts(d dialect, o Options) *texts {
	t := commonTexts()
	d.adapt(&t)
	r := replacer(d, o)
	for _, text := range append(t.mysql.all(),
		&t.lockRow, &t.createRow, &t.saveRow, &t.look, &t.setPlace, &t.ahead, &t.removePlaces, &t.removePlace,
		&t.setTombstone, &t.removeTombstones, &t.acquire, &t.seen, &t.renew, &t.release, &t.explain, &t.guard, &t.lockGrant,
		&t.setMetadata, &t.inspect, &t.list, &t.notify, &t.sweepPage, &t.sweepRows, &t.sweepPlaces, &t.sweepTombstones,
	) {
		*text = numbered(d, r.Replace(r.Replace(*text))) // an expression may contain a name
	}
	return &t
}

// replacer replaces the names in braces.
func replacer(d dialect, o Options) *strings.Replacer {
	pairs := make([]string, 0, 32)
	for name, value := range d.expressions(o) {
		pairs = append(pairs, "{"+name+"}", value)
	}
	for _, table := range []string{"locks", "places", "tombstones", "floor", "grants"} {
		pairs = append(pairs, "{"+table+"}", o.Table+"_"+table)
	}
	return strings.NewReplacer(pairs...)
}

// numbered replaces the question marks of a text by the placeholders of the dialect.
func numbered(d dialect, text string) string {
	var b strings.Builder
	n := 0
	for part := range strings.SplitSeq(text, "?") {
		if n > 0 {
			b.WriteString(d.placeholder(n))
		}
		b.WriteString(part)
		n++
	}
	return b.String()
}
