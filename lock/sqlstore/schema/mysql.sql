-- The tables of the lock store in MariaDB and MySQL. Instants are milliseconds since 1970, by the
-- clock of the server: FROM_UNIXTIME(expires / 1000) shows one. Another prefix than leasewheel_
-- may be used for all names; it is sqlstore.Options.Table. The table of the locks
-- comes after the others, so that no lock is granted before all are there.

-- The token of each key once more. Only a grant to another owner changes it. So a transaction
-- that has locked such a row in share mode, as Guard does, keeps the lock from others, and
-- renewals do not wait for it.
CREATE TABLE IF NOT EXISTS leasewheel_grants (
    lock_key VARBINARY(1024) NOT NULL PRIMARY KEY,
    token    BIGINT          NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC;

-- The queues: a row for each waiter. Only the transaction that has locked the row of the key
-- adds or removes them; the ends of places are extended without it. The index is not unique, because a check for duplicates locks the gaps between
-- the keys.
CREATE TABLE IF NOT EXISTS leasewheel_places (
    lock_key VARBINARY(1024) NOT NULL,
    place    BIGINT          NOT NULL, -- the time of arrival in microseconds; rises in the order of arrival
    owner    VARBINARY(200)  NOT NULL,
    expires  BIGINT          NOT NULL, -- of the place
    metadata VARBINARY(1024),
    channel  VARBINARY(100)  NOT NULL, -- empty: there are no messages
    PRIMARY KEY (lock_key, owner),
    KEY in_order (lock_key, place)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC;

-- Owners that were given up while one of their requests had no answer. They are refused.
CREATE TABLE IF NOT EXISTS leasewheel_tombstones (
    lock_key VARBINARY(1024) NOT NULL,
    owner    VARBINARY(200)  NOT NULL,
    expires  BIGINT          NOT NULL,
    PRIMARY KEY (lock_key, owner)
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC;

-- The state that the last holder of a key has saved. Only programs that save states use it. A save
-- is a transaction that has locked the row of the key in leasewheel_locks.
CREATE TABLE IF NOT EXISTS leasewheel_states (
    lock_key VARBINARY(1024) NOT NULL PRIMARY KEY,
    token    BIGINT          NOT NULL, -- of the lease that has saved it
    number   BIGINT          NOT NULL, -- of the save; each lease counts from 1
    expires  BIGINT          NOT NULL, -- the last ms of the state
    data     MEDIUMBLOB      NOT NULL
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC;

-- A row for each key that was ever locked. It stays after the release, because it has the last
-- token.
CREATE TABLE IF NOT EXISTS leasewheel_locks (
    lock_key      VARBINARY(1024) NOT NULL PRIMARY KEY,
    kind          SMALLINT        NOT NULL, -- 0: an exclusive lock; rows of other kinds are never changed
    owner         VARBINARY(200)  NOT NULL, -- empty: free; one zero byte: kept taken by nobody
    token         BIGINT          NOT NULL, -- of the last grant
    expires       BIGINT          NOT NULL, -- the last ms of the lease, or the ms of the release
    metadata      VARBINARY(1024),
    queued_until  BIGINT          NOT NULL, -- leasewheel_places may have rows of the key until then
    refused_until BIGINT          NOT NULL  -- leasewheel_tombstones may have rows of the key until then
) ENGINE=InnoDB ROW_FORMAT=DYNAMIC;
