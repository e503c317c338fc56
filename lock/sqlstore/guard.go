// Guard, which binds a lock to a transaction of the caller.

package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// Holder is the holder of a lock, as [Store.Guard] needs it: a *lock.Held.
type Holder interface {
	Key() string
	Token() uint64 // identifies the grant: no two grants of a key have the same one
	Err() error    // nil while the lock is held, as far as its client knows
}

// Guard binds a lock to a transaction of the caller: if it returns nil, the lock is granted to
// nobody else until the transaction has ended, even if the lease ends, the process stalls, or the
// lock is released. So a commit of the transaction comes before all that the next holder does.
// No column in the tables of the caller is needed, as fencing tokens would.
//
//	held, err := client.Mutex("reports").Lock(ctx)
//	...
//	tx, err := db.BeginTx(ctx, nil)
//	...
//	defer tx.Rollback()
//	if err := store.Guard(ctx, tx, held); err != nil {
//		return err // matches lock.ErrLost if the lock is no longer held
//	}
//	... statements that need the lock
//	return tx.Commit()
//
// Call Guard first in the transaction. Each holder of the lock must do so in each transaction that
// needs the lock: a late holder that writes without Guard is not stopped. tx must be of the
// database that has the tables of the store, and its user must be able to read and update them.
//
// # Errors
//
// The error is that of held.Err if the client knows that the lock is not held, such as
// lock.ErrNotHeld after Unlock. It matches lock.ErrLost if the database reports it. Any other error is
// that of the database; it may report a deadlock, a serialization failure or that it is busy, and
// then the whole transaction can be repeated. After any error the transaction must be rolled
// back. For a lock.Multi guard each of its Handles.
//
// PostgreSQL and SQLite also refuse a lease that has ended by their clock, and one that was
// released by another process. MySQL and MariaDB compare the token only, so they may accept
// such a lease as long as nobody else was granted the lock. A transaction with a snapshot that
// is older than the last renewal may be refused although the lock is held.
//
// # Until the transaction ends
//
//   - Renewals go on and are not delayed, except in SQLite, where all writers wait for one
//     another: there a transaction that writes for longer than the TTL loses all leases of its
//     process. Its own commit stays protected.
//   - A lock whose lease has ended, or was ended by Unlock or ForceRelease, counts as taken. Acquire returns a
//     *lock.HeldError whose ExpiresIn is 0, and waiters keep their places and ask again every Options.PollInterval. In
//     SQLite they wait for the writer. Commit before Unlock, so that nobody has to poll.
//   - Sweep leaves the row alone, and locks of other keys are not affected.
//
// The connection of the transaction must not be the last one of the *sql.DB of the store, or renewals wait
// for the end of the transaction, and the lease may be lost. The commit stays protected.
//
// So a lock may stay taken after its lease has ended. Bound the time of transactions on the server; docs/STORES.md names the
// settings.
//
// # Details
//
// Several transactions may guard one lock at a time, and one transaction several locks, in any
// order. Guard waits only for a grant of the same lock that is under way, which takes milliseconds.
// A rollback to a savepoint that was set before Guard ends the guard in PostgreSQL, and may end
// it in MySQL. A read-only transaction can be guarded in MySQL and SQLite only.
//
// In PostgreSQL the transaction has the lock FOR KEY SHARE of the row of the key; in MySQL it has
// the lock in share mode of the row in the table leasewheel_grants, which only grants change; in
// SQLite it has the write lock of the file. Do not lock these rows in any stronger mode yourself:
// renewals would wait for it.
func (s *Store) Guard(ctx context.Context, tx *sql.Tx, held Holder) error {
	switch {
	case ctx == nil:
		return errors.New("sqlstore: guard: the context is nil")
	case tx == nil:
		return errors.New("sqlstore: guard: the transaction is nil")
	case held == nil:
		return errors.New("sqlstore: guard: the lock is nil")
	}
	key, token := held.Key(), held.Token()
	refused := func(err error) error { return failed("guard "+basic.Quote(key), err) }
	if err := held.Err(); err != nil {
		return refused(err)
	}
	if token == 0 || token > math.MaxInt64 {
		return refused(fmt.Errorf("its token is %d: a lock of another store, or of several keys", token))
	}
	if err := basic.Cause(ctx); err != nil {
		return refused(err)
	}
	err := s.locateOnce(ctx, func() (Options, error) { return s.dialect.locate(ctx, tx, s.options, false) })
	ok := false
	if err == nil {
		ok, err = s.dialect.guard(ctx, tx, s.texts, []byte(key), int64(token))
	}
	switch why := context.Cause(ctx); {
	case err != nil && why != nil && !errors.Is(err, why):
		return refused(fmt.Errorf("%w: %w", err, why))
	case err != nil:
		return refused(err)
	case !ok:
		return refused(fmt.Errorf("%w: the grant with token %d has ended", driver.ErrLost, token))
	}
	return nil
}
