// The state that a holder leaves to the next one.

package sqlstore

import (
	"context"
	"database/sql"
	sqldriver "database/sql/driver"
	"errors"
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// Save implements [driver.Store]. It is one statement: it locks the row of the lock, compares owner and token
// in the newest version of the row, and writes the state. A grant of the lock changes that row. So a
// grant comes before the statement, which then finds another holder, or after the commit of the state.
// A process that stops leaves no row locked, because the statement is the whole transaction.
//
// A state is as durable as the grant of a lock; see [Options].SynchronousCommit. MySQL and MariaDB read their
// clock when the statement begins. So a Save that waits for the row may take effect after the end
// of the lease, but not after the next grant.
func (s *Store) Save(ctx context.Context, l driver.Lease, number uint64, data []byte, ttl time.Duration) error {
	if err := checkMode(l.Mode); err != nil {
		return err
	}
	if !isOwner(l.Owner) {
		return driver.ErrNotHeld
	}
	data = append([]byte{}, data...) // the statement may run after the call has returned; nil would be NULL
	err := do(ctx, s, func(ctx context.Context, c *sql.Conn) error {
		n, err := s.dialect.update(ctx, c, s.texts.saveState, int64(number), ms(ttl), data, []byte(l.Key), []byte(l.Owner), int64(l.Token))
		if err == nil && n == 0 { // the lock is not held, or this save or a later one was executed before
			err = c.QueryRowContext(ctx, s.texts.isSaved, []byte(l.Key), []byte(l.Owner), int64(l.Token), int64(number)).Scan(&n)
		}
		if err == nil && n == 0 {
			err = driver.ErrNotHeld
		}
		return err
	})
	return failed("save", err)
}

// Forget implements [driver.Store].
func (s *Store) Forget(ctx context.Context, key string) error {
	err := do(ctx, s, func(ctx context.Context, c *sql.Conn) error {
		_, err := s.dialect.update(ctx, c, s.texts.forgetState, []byte(key))
		return err
	})
	return failed("forget", err)
}

// withState adds the state to the answer to a request that was granted and asks for it. The statement that
// grants the lock cannot read it: while it waits for the row of the lock, a Save may commit that it does
// not see. Once the grant is committed nobody else saves until the next grant. If that has come
// already, the state may be of the next holder, so the request counts as one that was not granted.
func (s *Store) withState(ctx context.Context, c *sql.Conn, r driver.Request, a answer) (answer, error) {
	if !a.granted || !r.Stateful() {
		return a, nil
	}
	var token sql.NullInt64
	var data []byte
	err := c.QueryRowContext(ctx, s.texts.readState, []byte(r.Key), []byte(r.Owner), a.token).Scan(&token, &data)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return answer{}, nil
	case errors.Is(err, sqldriver.ErrBadConn): // it means that nothing was executed, but the grant was
		return answer{}, fmt.Errorf("read the state: %v", err) //nolint:errorlint // see above
	case err != nil:
		return answer{}, err
	}
	a.saved = &driver.Saved{Data: data, Token: uint64(token.Int64)}
	return a, nil
}
