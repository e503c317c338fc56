-- The tables of the lock store in SQLite. Instants are milliseconds since 1970, by the clock of
-- the machine: datetime(expires / 1000, 'unixepoch') shows one. Another prefix than leasewheel_
-- may be used for all names; it is sqlstore.Options.Table. The table of the locks
-- comes after the others, so that no lock is granted before all are there.

-- The queues: a row for each waiter.
CREATE TABLE IF NOT EXISTS leasewheel_places (
    lock_key BLOB    NOT NULL,
    place    INTEGER NOT NULL, -- the time of arrival in microseconds; rises in the order of arrival
    owner    BLOB    NOT NULL,
    expires  INTEGER NOT NULL, -- of the place
    metadata BLOB,
    channel  TEXT    NOT NULL, -- on which the waiter listens; empty if it only polls
    PRIMARY KEY (lock_key, owner),
    UNIQUE (lock_key, place)
) WITHOUT ROWID;

-- Owners that were given up while one of their requests had no answer. They are refused.
CREATE TABLE IF NOT EXISTS leasewheel_tombstones (
    lock_key BLOB    NOT NULL,
    owner    BLOB    NOT NULL,
    expires  INTEGER NOT NULL,
    PRIMARY KEY (lock_key, owner)
) WITHOUT ROWID;

-- The highest token of a row that was deleted. Tokens are instants, and the clock of SQLite has
-- milliseconds only: without the floor, a row that is deleted and made again within one would
-- repeat its token.
CREATE TABLE IF NOT EXISTS leasewheel_floor (
    id    INTEGER NOT NULL PRIMARY KEY CHECK (id = 1),
    token INTEGER NOT NULL
);

INSERT OR IGNORE INTO leasewheel_floor (id, token) VALUES (1, 0);

-- The state that the last holder of a key has saved. Only programs that save states use it. It has
-- a rowid, because long rows are slow in a table without.
CREATE TABLE IF NOT EXISTS leasewheel_states (
    lock_key BLOB    NOT NULL PRIMARY KEY,
    token    INTEGER NOT NULL, -- of the lease that has saved it
    number   INTEGER NOT NULL, -- of the save; each lease counts from 1
    expires  INTEGER NOT NULL, -- the last ms of the state
    data     BLOB    NOT NULL
);

-- A row for each key that was ever locked. It stays after the release, because it has the last
-- token.
CREATE TABLE IF NOT EXISTS leasewheel_locks (
    lock_key      BLOB    NOT NULL PRIMARY KEY,
    kind          INTEGER NOT NULL, -- 0: an exclusive lock; rows of other kinds are never changed
    owner         BLOB    NOT NULL, -- empty: free; one zero byte: kept taken by nobody
    token         INTEGER NOT NULL, -- of the last grant
    expires       INTEGER NOT NULL, -- the last ms of the lease, or the ms of the release
    metadata      BLOB,
    queued_until  INTEGER NOT NULL, -- leasewheel_places may have rows of the key until then
    refused_until INTEGER NOT NULL  -- leasewheel_tombstones may have rows of the key until then
) WITHOUT ROWID;

CREATE TRIGGER IF NOT EXISTS leasewheel_keep_token AFTER DELETE ON leasewheel_locks
BEGIN
    UPDATE leasewheel_floor SET token = max(token, OLD.token);
END;
