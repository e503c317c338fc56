// The functions of package seam, for tests.

package sqlstore

import (
	"context"
	"database/sql"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/sqlstore/internal/seam"
)

// The tests see and set what programs cannot; see package seam.
func init() {
	seam.Expand = func(s any, text string) string { return expander(s.(*Store).dialect, s.(*Store).options)(text) }
	seam.TextsOf = func(s any) seam.Texts {
		located := func(context.Context, *sql.Conn) (struct{}, error) { return struct{}{}, nil }
		if _, err := callWithin(context.Background(), s.(*Store), 0, located); err != nil {
			panic(err)
		}
		t := s.(*Store).texts
		return seam.Texts{CreateRow: &t.createRow, ReadLocks: &t.readLocks, IsHeld: &t.mysql.isHeld}
	}
	seam.Enter = func(ctx context.Context, s any, r driver.Request) error {
		_, err := call(ctx, s.(*Store), func(ctx context.Context, c *sql.Conn) (answer, error) {
			return s.(*Store).ask(ctx, c, r, ms(min(place, r.TTL)), "")
		})
		return err
	}
	seam.GrantAfter = func(ctx context.Context, s any, c *sql.Conn, r driver.Request, f func()) error {
		if err := s.(*Store).locate(ctx, c); err != nil {
			return err
		}
		return s.(*Store).locked(ctx, c, r.Key, true, func(k *lockedKey) error {
			f()
			k.grant(r.Owner, k.now+ms(r.TTL), metadataOf(r))
			return nil
		})
	}
	seam.Calls = func(s any) int { return s.(*Store).calls.Len() }
	seam.PageSize = pageSize
}
