// Inspect, ForceRelease, SetMetadata and List.

package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// Inspect implements [driver.Store], with one statement. Info.Token is that of the last
// grant, until a Sweep removes the row.
func (s *Store) Inspect(ctx context.Context, key string) (driver.Info, error) {
	info, err := call(ctx, s, func(ctx context.Context, c *sql.Conn) (driver.Info, error) { return s.inspect(ctx, c, key) })
	return info, failed("inspect", err)
}

func (s *Store) inspect(ctx context.Context, c *sql.Conn, key string) (info driver.Info, err error) {
	var kind, token, expires, waited sql.NullInt64
	var now int64
	var owner, metadata, waiter, waiterMetadata []byte
	dest := []any{&kind, &owner, &token, &expires, &metadata, &now, &info.Waiting, &waiter, &waiterMetadata, &waited}
	err = eachRow(ctx, c, s.texts.inspect, []any{[]byte(key), []byte(key), []byte(key)}, dest, func() {
		if waiter != nil {
			info.Places = append(info.Places, driver.Place{
				Metadata: string(waiterMetadata), Client: driver.ClientName(string(waiter)),
				Waited: time.Duration(max(waited.Int64, 1)) * time.Microsecond, // a place is the time of its arrival
			})
		}
	})
	if err == nil && kind.Int64 != 0 {
		err = driver.ErrWrongType
	}
	if err != nil {
		return driver.Info{}, err
	}
	info.Token = uint64(token.Int64) // each row has the same lock
	left := time.Duration(max(expires.Int64-now, 1)) * time.Millisecond
	switch {
	case len(owner) == 0 || expires.Int64 < now:
	case string(owner) == keptOwner:
		info.FreeIn = left
	default:
		info.Held = 1
		info.Holders = []driver.Holder{{Token: info.Token, ExpiresIn: left, Metadata: string(metadata), Client: driver.ClientName(string(owner))}}
	}
	return info, nil
}

// ForceRelease implements [driver.Store].
func (s *Store) ForceRelease(ctx context.Context, key string) error {
	err := do(ctx, s, func(ctx context.Context, c *sql.Conn) error {
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
		return err
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
	err := do(ctx, s, func(ctx context.Context, c *sql.Conn) error {
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
		return err
	})
	return failed("set metadata", err)
}

// afterAllKeys is greater than every key.
var afterAllKeys = []byte(strings.Repeat("\xff", driver.MaxKeyLen+1))

// List implements [driver.Store]. One call reads up to 1,000 rows with the prefix, in the order
// of their keys. The cursor is the last of these keys.
func (s *Store) List(ctx context.Context, prefix, cursor string) (keys []string, next string, err error) {
	if cursor != "" && !strings.HasPrefix(cursor, prefix) {
		return nil, "", fmt.Errorf("sqlstore: the cursor %s is not one of a List with prefix %s", basic.Quote(cursor), basic.Quote(prefix))
	}
	p, err := call(ctx, s, func(ctx context.Context, c *sql.Conn) (page, error) {
		return readPage(ctx, c, s.texts.list, []byte(max(string(keyAfter(cursor)), prefix)), endOf(prefix))
	})
	if err != nil {
		return nil, "", failed("list", err)
	}
	return p.keys, p.next, nil
}

// page is what one statement finds in up to 1,000 rows.
type page struct {
	keys []string // of the rows that are wanted
	next string   // the last key that was read, "" if no more follow
}

// readPage executes a query for rows of a key and of 1 if the row is wanted.
func readPage(ctx context.Context, q querier, text string, args ...any) (p page, err error) {
	var key []byte
	n, wanted := 0, 0
	err = eachRow(ctx, q, text, args, []any{&key, &wanted}, func() {
		if wanted == 1 {
			p.keys = append(p.keys, string(key))
		}
		p.next = string(key)
		n++
	})
	if n < pageSize {
		p.next = ""
	}
	return p, err
}

// keyAfter returns the key that comes next after another one, or the first one after "".
func keyAfter(key string) []byte { return []byte(key + "\x00") }

// endOf returns the first string of bytes after all that begin with a prefix.
func endOf(prefix string) []byte {
	end := []byte(prefix)
	for len(end) > 0 && end[len(end)-1] == 0xff {
		end = end[:len(end)-1]
	}
	if len(end) == 0 {
		return afterAllKeys
	}
	end[len(end)-1]++
	return end
}
