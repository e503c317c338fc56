// Sweep, which deletes old rows.

package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
)

// placesKept is for how long Sweep leaves a place that has ended. A waiter that was paused for
// less keeps its position.
const placesKept = 10 * time.Minute

// Sweep deletes the rows of locks that have been free for Options.KeepTokens, of waiters that
// died, of owners that were given up, and of states that have ended. It returns how many rows of locks it
// has deleted. Nothing else deletes the row of a lock, so a program that locks ever new keys should call
// Sweep once a day or so, from any process; it is safe at any time. It reads the tables of the
// states and of the locks once, in statements for 1,000 rows each.
func (s *Store) Sweep(ctx context.Context) (removed int64, err error) {
	err = do(ctx, s, func(ctx context.Context, c *sql.Conn) error {
		_, err := s.dialect.update(ctx, c, s.texts.sweepPlaces, ms(placesKept))
		if err == nil {
			_, err = s.dialect.update(ctx, c, s.texts.sweepTombstones)
		}
		return err
	})
	if err == nil {
		removed, err = s.sweepLocks(ctx)
		err = errors.Join(err, s.sweepStates(ctx))
	}
	if err != nil {
		err = fmt.Errorf("sqlstore: sweep: %w", err)
	}
	return removed, err
}

// sweepLocks deletes the rows of locks that have been free for long.
func (s *Store) sweepLocks(ctx context.Context) (removed int64, err error) {
	from := keyAfter("")
	for {
		last, err := call(ctx, s, func(ctx context.Context, c *sql.Conn) (last []byte, err error) {
			err = c.QueryRowContext(ctx, s.texts.sweepPage, from).Scan(&last)
			return last, err
		})
		end := errors.Is(err, sql.ErrNoRows)
		if end {
			last, err = afterAllKeys, nil
		}
		if err != nil {
			return removed, err
		}
		n, err := call(ctx, s, func(ctx context.Context, c *sql.Conn) (int64, error) {
			return s.dialect.sweepRows(ctx, c, s.texts, from, last, ms(s.options.KeepTokens))
		})
		removed += n
		if err != nil || end {
			return removed, err
		}
		from = keyAfter(string(last))
	}
}

// statesAtOnce is how many states one statement deletes. A state may have 64 KiB.
const statesAtOnce = 100

// sweepStates deletes the states that have ended. If the table is missing, or the user may not read it,
// there are none: a program needs the table only for locks that have states.
func (s *Store) sweepStates(ctx context.Context) error {
	for after, end := "", false; !end; {
		p, err := call(ctx, s, func(ctx context.Context, c *sql.Conn) (page, error) {
			return readPage(ctx, c, s.texts.endedStates, keyAfter(after))
		})
		switch {
		case err != nil && slices.Contains([]fault{noTable, forbidden}, s.dialect.faultOf(err)):
			return nil
		case err != nil:
			return fmt.Errorf("the states: %w", err)
		}
		for keys := range slices.Chunk(p.keys, statesAtOnce) {
			where, args := s.dialect.in(oneColumn(keys))
			text := strings.Replace(s.texts.sweepStates, "{list}", where, 1)
			err := do(ctx, s, func(ctx context.Context, c *sql.Conn) error {
				_, err := s.dialect.update(ctx, c, text, args...)
				return err
			})
			if err != nil {
				return fmt.Errorf("the states: %w", err)
			}
		}
		after, end = p.next, p.next == ""
	}
	return nil
}

// affected returns the number of rows that a statement has changed.
func affected(result sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}
