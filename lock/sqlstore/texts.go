// The statements of a store.

package sqlstore

import "strings"

// texts are the statements of a store. Question marks stand for parameters, in the order in which
// the comments name them. Names in braces stand for tables and for expressions of the dialect:
//
//	{now}      the clock of the database, in ms; {us} in µs
//	{sync}     true; a side effect applies Options.SynchronousCommit to the transaction; in MySQL that a statement is committed by itself
//	{bounded}  the same, and bounds how long the transaction may be idle; in MySQL as {sync}
//	{timed}    the same without a row to look at
//	{floor_of} a token that was granted to any key, below which no token of a new row may be
//	{hex}      true; values of bytes arrive in one form, whatever the session prefers
//	{empty}    the owner of a free lock; {kept} that of a lock that is kept taken by nobody
//	{bytes}, {int}, {text} types for CAST
//	{primary}  makes a SELECT use the primary key
//	{lock}     the end of a SELECT that locks its row, and lets others refer to its key
type texts struct {
	tables string // as errors name them

	lockRow      string // key
	createRow    string // key
	saveRow      string // owner, token, expires, metadata, queued until, refused until, key
	look         string // key, owner, now, key, now
	setPlace     string // key, owner, expires, metadata, channel, key
	ahead        string // key, now, key, owner
	removePlaces string // key, the last place, the last place, its owner
	removePlace  string // key, owner

	// Of Store.enter and Store.leave. They are empty if transactions of the dialect need no network.
	queue     string // key, key, owner, key, owner
	keepQueue string // ms, key, ms
	enter     string // place, owner, ms, metadata, channel, key, owner, ms, the refused_until of queue
	entered   string // key, key, key, key, owner
	placeOf   string // key, owner
	leave     string // of the dialect: key, owner, owner
	first     string // key

	// Of the poller. A list of keys, or of keys and owners, follows or replaces {list}, and {ms} are ms.
	readLocks    string
	readAhead    string
	waitedFor    string // see Store.Watch
	extendQueues string // of the dialect; skips locked rows
	extendPlaces string // of the dialect; skips locked rows

	setTombstone     string // key, owner, expires
	removeTombstones string // key, now

	acquire string // of the dialect
	seen    string // key, owner
	read    string // key
	renew   string // of the dialect; skips locked rows
	await   string // the same for one lease, and waits for its row
	release string // ms, ms, key, owner

	guard     string // key, token; in MySQL only the key
	lockGrant string // key; see dialect.unguarded

	setMetadata string // metadata, key, owner, token
	inspect     string // key, key, key, key
	list        string // from this key, before this key
	notify      string // channel, text; empty if the dialect has no messages

	sweepPage       string // from this key
	sweepRows       string // from this key, to this key, ms since they have been free
	sweepPlaces     string // ms since they have ended
	sweepTombstones string

	saveState   string // number, ms, data, key, owner, token
	isSaved     string // key, owner, token, number
	readState   string // key, owner, token
	forgetState string // key
	endedStates string // from this key
	sweepStates string // a list of keys replaces {list}

	mysql mysqlTexts
}

// heldByAnother is the condition for a row that is held or kept: key, owner.
const heldByAnother = `lock_key = ? AND kind = 0 AND owner <> {empty} AND owner <> ? AND expires >= {now}`

// pageSize is how many rows one statement of List and Sweep reads.
const pageSize = 1000

// commonTexts returns the statements that most dialects can use.
func commonTexts() texts {
	return texts{
		lockRow: `SELECT kind, owner, token, expires, metadata, queued_until, refused_until, {us}, {floor_of}, {bounded}
			FROM {locks} WHERE lock_key = ? AND {hex} {lock}`,
		createRow: `INSERT INTO {locks} (lock_key, kind, owner, token, expires, metadata, queued_until, refused_until)
			SELECT CAST(? AS {bytes}), 0, {empty}, 0, {now}, NULL, 0, 0 WHERE {timed} ON CONFLICT (lock_key) DO NOTHING`,
		saveRow: `UPDATE {locks} SET owner = coalesce(?, {empty}), token = ?, expires = ?, metadata = ?, queued_until = ?, refused_until = ?
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
			SELECT CAST(? AS {bytes}), greatest(coalesce(max(place), 0) + 1, {us}), CAST(? AS {bytes}), CAST(? AS {int}), CAST(? AS {bytes}), CAST(? AS {text})
			FROM {places} WHERE lock_key = ?
			ON CONFLICT (lock_key, owner) DO UPDATE SET expires = excluded.expires, channel = excluded.channel`,
		ahead: `SELECT count(*) FROM {places} WHERE lock_key = ? AND expires >= ?
			AND place < (SELECT place FROM {places} WHERE lock_key = ? AND owner = ?)`,
		removePlaces: `DELETE FROM {places} WHERE lock_key = ? AND place <= ? AND (place < ? OR owner = ?)`,
		removePlace:  `DELETE FROM {places} WHERE lock_key = ? AND owner = ?`,

		queue: `SELECT queued_until - {now}, (SELECT coalesce(max(place), 0) + 1 FROM {places} WHERE lock_key = ?), refused_until FROM {locks}
			WHERE ` + heldByAnother + ` AND NOT EXISTS (SELECT 1 FROM {tombstones} WHERE lock_key = ? AND owner = ?)`,
		keepQueue: `UPDATE {locks} SET queued_until = {now} + ?
			WHERE lock_key = ? AND kind = 0 AND owner <> {empty} AND expires >= {now} AND queued_until < {now} + ? AND {sync}`,
		enter: `INSERT INTO {places} (lock_key, place, owner, expires, metadata, channel)
			SELECT lock_key, greatest(CAST(? AS {int}), {us}), CAST(? AS {bytes}), {now} + CAST(? AS {int}), CAST(? AS {bytes}), CAST(? AS {text})
			FROM (SELECT lock_key FROM {locks} WHERE ` + heldByAnother + `
				AND queued_until >= {now} + ? AND refused_until = ? AND {sync} LIMIT 1 {lock}) AS k
			ON CONFLICT (lock_key, owner) DO UPDATE SET expires = excluded.expires, channel = excluded.channel`,
		entered: `SELECT coalesce((SELECT expires - {now} FROM {locks} WHERE lock_key = ?), 0), coalesce((SELECT {us} - token FROM {locks} WHERE lock_key = ?), 0),
			(SELECT count(*) FROM {places} WHERE lock_key = ? AND expires >= {now}
				AND place < (SELECT place FROM {places} WHERE lock_key = ? AND owner = ?))`,
		placeOf: `SELECT place FROM {places} WHERE lock_key = ? AND owner = ?`,
		first:   `SELECT place, owner, channel FROM {places} WHERE {hex} AND lock_key = ? AND expires >= {now} ORDER BY place LIMIT 1`,

		readLocks: `SELECT lock_key, owner, kind, expires - {now}, queued_until - {now}, token, {us} - token FROM {locks} {primary} WHERE {hex} AND `,
		readAhead: `SELECT owner, (SELECT count(*) FROM {places} AS b WHERE b.lock_key = f.lock_key AND b.place < f.place AND b.expires >= {now})
			FROM {places} AS f {primary} WHERE {hex} AND `,

		waitedFor: `SELECT DISTINCT lock_key FROM {places} {primary} WHERE {hex} AND expires >= {now} AND `,

		setTombstone: `INSERT INTO {tombstones} (lock_key, owner, expires) VALUES (?, ?, ?)
			ON CONFLICT (lock_key, owner) DO UPDATE SET expires = excluded.expires`,
		removeTombstones: `DELETE FROM {tombstones} WHERE lock_key = ? AND expires < ?`,

		seen: `SELECT expires - {now} FROM {locks} WHERE ` + heldByAnother,

		read: `SELECT kind, owner, token, expires, {now} FROM {locks} WHERE lock_key = ?`,

		release: `UPDATE {locks} SET owner = CASE WHEN CAST(? AS {int}) > 0 THEN {kept} ELSE {empty} END, expires = {now} + CAST(? AS {int}), metadata = NULL
			WHERE lock_key = ? AND kind = 0 AND owner = ? AND expires >= {now} AND queued_until < {now} AND {sync}`,

		setMetadata: `UPDATE {locks} SET metadata = ?
			WHERE lock_key = ? AND kind = 0 AND owner = ? AND token = ? AND expires >= {now} AND {sync}`,
		inspect: `SELECT l.kind, l.owner, l.token, l.expires, l.metadata, {now},
				(SELECT count(*) FROM {places} WHERE lock_key = ? AND expires >= {now}), p.owner, p.metadata, {us} - p.place
			FROM (SELECT 1 AS one) AS one LEFT JOIN (SELECT * FROM {locks} WHERE lock_key = ?) AS l ON 1 = 1
			LEFT JOIN (
				SELECT place, owner, metadata FROM {places} WHERE lock_key = ? AND expires >= {now} ORDER BY place LIMIT 100
			) AS p ON 1 = 1 WHERE {hex} ORDER BY p.place`,
		list: `SELECT lock_key, CASE WHEN kind = 0 AND owner <> {empty} AND expires >= {now} THEN 1 ELSE 0 END
			FROM {locks} {primary} WHERE {hex} AND lock_key >= ? AND lock_key < ? ORDER BY lock_key LIMIT 1000`,

		sweepPage: `SELECT lock_key FROM {locks} {primary} WHERE {hex} AND lock_key >= ? ORDER BY lock_key LIMIT 1 OFFSET 999`,
		sweepRows: `DELETE FROM {locks} WHERE lock_key >= ? AND lock_key <= ? AND kind = 0
			AND expires < {now} - ? AND queued_until < {now} AND refused_until < {now}`,
		sweepPlaces:     `DELETE FROM {places} WHERE expires < {now} - ? AND {sync}`,
		sweepTombstones: `DELETE FROM {tombstones} WHERE expires < {now} AND {sync}`,

		// SQLite needs a WHERE before ON CONFLICT.
		saveState: `INSERT INTO {states} (lock_key, token, number, expires, data)
			SELECT lock_key, token, CAST(? AS {int}), {now} + CAST(? AS {int}), CAST(? AS {bytes}) FROM (
				SELECT lock_key, token FROM {locks}
				WHERE lock_key = ? AND kind = 0 AND owner = ? AND token = ? AND expires >= {now} AND {sync} LIMIT 1 {lock}
			) AS k WHERE 1 = 1
			ON CONFLICT (lock_key) DO UPDATE
				SET token = excluded.token, number = excluded.number, expires = excluded.expires, data = excluded.data
				WHERE {states}.token <> excluded.token OR {states}.number < excluded.number`,
		isSaved: `SELECT count(*) FROM {locks} AS l JOIN {states} AS s ON s.lock_key = l.lock_key AND s.token = l.token
			WHERE l.lock_key = ? AND l.kind = 0 AND l.owner = ? AND l.token = ? AND l.expires >= {now} AND s.number >= CAST(? AS {int}) AND {sync}`,
		readState: `SELECT s.token, s.data FROM {locks} AS l LEFT JOIN {states} AS s ON s.lock_key = l.lock_key AND s.expires >= {now}
			WHERE {hex} AND l.lock_key = ? AND l.owner = ? AND l.token = ?`,
		forgetState: `DELETE FROM {states} WHERE lock_key = ? AND {sync}`,
		endedStates: `SELECT lock_key, CASE WHEN expires < {now} THEN 1 ELSE 0 END FROM {states} {primary} WHERE {hex} AND lock_key >= ? ORDER BY lock_key LIMIT 1000`,
		sweepStates: `DELETE FROM {states} WHERE {list} AND expires < {now} AND {sync}`,
	}
}

// newTexts returns the statements of a dialect with the names of the tables.
func newTexts(d dialect, o Options) *texts {
	t := commonTexts()
	t.tables = o.Table + "_*"
	d.adapt(&t)
	expand := expander(d, o)
	for _, text := range t.all() {
		*text = expand(*text)
	}
	return &t
}

// all returns the statements.
func (t *texts) all() []*string {
	return append(t.mysql.all(),
		&t.lockRow, &t.createRow, &t.saveRow, &t.look, &t.setPlace, &t.ahead, &t.removePlaces, &t.removePlace,
		&t.queue, &t.keepQueue, &t.enter, &t.entered, &t.placeOf, &t.leave, &t.first,
		&t.readLocks, &t.readAhead, &t.waitedFor, &t.extendQueues, &t.extendPlaces,
		&t.setTombstone, &t.removeTombstones, &t.acquire, &t.seen, &t.read, &t.renew, &t.await, &t.release, &t.guard, &t.lockGrant,
		&t.setMetadata, &t.inspect, &t.list, &t.notify, &t.sweepPage, &t.sweepRows, &t.sweepPlaces, &t.sweepTombstones,
		&t.saveState, &t.isSaved, &t.readState, &t.forgetState, &t.endedStates, &t.sweepStates,
	)
}

// expander returns a function that replaces the names in braces and the question marks of a text.
func expander(d dialect, o Options) func(text string) string {
	r := replacer(d, o)
	return func(text string) string {
		return numbered(d, r.Replace(r.Replace(r.Replace(text)))) // an expression may contain a name
	}
}

// replacer replaces the names in braces.
func replacer(d dialect, o Options) *strings.Replacer {
	pairs := make([]string, 0, 32)
	for name, value := range d.expressions(o) {
		pairs = append(pairs, "{"+name+"}", value)
	}
	for _, table := range []string{"locks", "places", "tombstones", "states", "floor", "grants"} {
		pairs = append(pairs, "{"+table+"}", prefix(d, o)+table)
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
