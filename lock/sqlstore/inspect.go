// Inspect, ForceRelease and SetMetadata.

package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// Inspect implements [driver.Store], with one statement. Info.Token is that of the last
// grant, until a Sweep removes the row.
func (s *Store) Inspect(ctx context.Context, key string) (driver.Info, error) {
	info, err := call(ctx, s, func(ctx context.Context, c *sql.Conn) (driver.Info, error) { return s.inspect(ctx, c, key) })
	return info, failed("inspect", err)
}

func (s *Store) inspect(ctx context.Context, c *sql.Conn, key string) (info driver.Info, err error) {
	rows, err := c.QueryContext(ctx, s.texts.inspect, []byte(key), []byte(key), []byte(key))
	if err != nil {
		return info, err
	}
	defer func() { _ = rows.Close() }()
	for rows.Next() {
		var kind, token, expires, waited sql.NullInt64
		var now int64
		var owner, metadata, waiter, waiterMetadata []byte
		if err := rows.Scan(&kind, &owner, &token, &expires, &metadata, &now, &info.Waiting, &waiter, &waiterMetadata, &waited); err != nil {
			return driver.Info{}, err
		}
		if kind.Int64 != 0 {
			return driver.Info{}, driver.ErrWrongType
		}
		info.Token = uint64(token.Int64)
		left := time.Duration(max(expires.Int64-now, 1)) * time.Millisecond
		switch {
		case len(owner) == 0 || expires.Int64 < now:
		case string(owner) == keptOwner:
			info.FreeIn = left
		default:
			info.Held = 1
			info.Holders = []driver.Holder{{Token: info.Token, ExpiresIn: left, Metadata: string(metadata), Client: driver.ClientName(string(owner))}}
		}
		if waiter != nil {
			info.Places = append(info.Places, driver.Place{Metadata: string(waiterMetadata), Client: driver.ClientName(string(waiter)), Waited: sinceArrival(waited.Int64)})
		}
	}
	return info, rows.Err()
}

// sinceArrival returns the time since a place was taken, which is us µs ago if the place is the time of its
// arrival. It returns 0 if the place is none: an earlier version counted places from 1.
func sinceArrival(us int64) time.Duration {
	const longest = 10 * 365 * 24 * time.Hour
	if us > longest.Microseconds() {
		return 0
	}
	return time.Duration(max(us, 1)) * time.Microsecond
}

// ForceRelease implements [driver.Store].
func (s *Store) ForceRelease(ctx context.Context, key string) error {
	_, err := call(ctx, s, func(ctx context.Context, c *sql.Conn) (struct{}, error) {
		err := s.locked(ctx, c, key, false, func(k *lockedKey) error {
			if !k.isTaken() {
				return driver.ErrNotHeld
			}
			if err := k.handOver(ctx); err != nil || k.owner != "" {
				return err
			}
			return s.dialect.forget(ctx, k.tx, s.texts, []byte(key))
		})
		if errors.Is(err, errNoRow) {
			err = driver.ErrNotHeld
		}
		return struct{}{}, err
	})
	return failed("force release", err)
}

// SetMetadata implements [driver.Store].
func (s *Store) SetMetadata(ctx context.Context, l driver.Lease, metadata string) error {
	if err := checkMode(l.Mode); err != nil {
		return err
	}
	if !isOwner(l.Owner) {
		return driver.ErrNotHeld
	}
	_, err := call(ctx, s, func(ctx context.Context, c *sql.Conn) (struct{}, error) {
		n, err := affected(c.ExecContext(ctx, s.texts.setMetadata, []byte(metadata), []byte(l.Key), []byte(l.Owner), int64(l.Token)))
		if err == nil && n == 0 && s.texts.mysql.isHeld != "" { // an equal row is not counted, or was not found
			err = c.QueryRowContext(ctx, s.texts.mysql.isHeld, []byte(l.Key), []byte(l.Owner), int64(l.Token)).Scan(&n)
		}
		if err == nil && n < 0 {
			err = mySQL{}.unfit(ctx, c)
		}
		if err == nil && n == 0 {
			err = driver.ErrNotHeld
		}
		return struct{}{}, err
	})
	return failed("set metadata", err)
}
