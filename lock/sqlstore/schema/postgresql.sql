-- The tables of the lock store in PostgreSQL. Instants are milliseconds since 1970, by the clock
-- of the server: to_timestamp(expires / 1000.0) shows one. Another prefix than leasewheel_ may be
-- used for all names; it is sqlstore.Options.Table. The table of the locks
-- comes after the others, so that no lock is granted before all are there.

-- The queues: a row for each waiter. Only the transaction that has locked the row of the key
-- adds or removes them; the ends of places are extended without it.
CREATE TABLE IF NOT EXISTS leasewheel_places (
    lock_key bytea  NOT NULL,
    place    bigint NOT NULL, -- the time of arrival in microseconds; rises in the order of arrival
    owner    bytea  NOT NULL,
    expires  bigint NOT NULL, -- of the place
    metadata bytea,
    channel  text   NOT NULL, -- on which the waiter listens; empty if it only polls
    PRIMARY KEY (lock_key, owner),
    UNIQUE (lock_key, place)
) WITH (fillfactor = 70);

-- Owners that were given up while one of their requests had no answer. They are refused.
CREATE TABLE IF NOT EXISTS leasewheel_tombstones (
    lock_key bytea  NOT NULL,
    owner    bytea  NOT NULL,
    expires  bigint NOT NULL,
    PRIMARY KEY (lock_key, owner)
);

-- The state that the last holder of a key has saved. Only programs that save states use it. A save
-- is a transaction that has locked the row of the key in leasewheel_locks.
CREATE TABLE IF NOT EXISTS leasewheel_states (
    lock_key bytea  PRIMARY KEY,
    token    bigint NOT NULL, -- of the lease that has saved it
    number   bigint NOT NULL, -- of the save; each lease counts from 1
    expires  bigint NOT NULL, -- the last ms of the state
    data     bytea  NOT NULL
);

-- A row for each key that was ever locked. It stays after the release, because it has the last
-- token. Renewals change no indexed column, and the free space in each page takes the new
-- version of the row, so they leave the index alone.
CREATE TABLE IF NOT EXISTS leasewheel_locks (
    lock_key      bytea    PRIMARY KEY,
    kind          smallint NOT NULL, -- 0: an exclusive lock; rows of other kinds are never changed
    owner         bytea    NOT NULL, -- empty: free; one zero byte: kept taken by nobody
    token         bigint   NOT NULL, -- of the last grant
    expires       bigint   NOT NULL, -- the last ms of the lease, or the ms of the release
    metadata      bytea,
    queued_until  bigint   NOT NULL, -- leasewheel_places may have rows of the key until then
    refused_until bigint   NOT NULL  -- leasewheel_tombstones may have rows of the key until then
) WITH (fillfactor = 70);
