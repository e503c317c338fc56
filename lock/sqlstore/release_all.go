// ReleaseAll.

package sqlstore

import (
	"context"
	"database/sql"
	"sync"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// ReleaseAll implements [driver.Store]. One statement, or one transaction in SQLite,
// releases the locks without waiters whose rows nobody has locked; each other lock is released by a call of its own.
func (s *Store) ReleaseAll(ctx context.Context, batch []driver.Lease, out []error) error {
	done := make([]bool, len(batch))
	var items []releaseItem
	var index []int // of each item in the batch
	seen := make(map[string]bool, len(batch))
	for i, l := range batch {
		if !s.options.Pessimistic && !l.Unanswered && checkRelease(l) == nil && !seen[l.Owner] {
			seen[l.Owner] = true
			items, index = append(items, itemOf(l)), append(index, i)
		}
	}
	if len(items) > 0 {
		released, err := call(ctx, s, func(ctx context.Context, c *sql.Conn) (released []int, err error) {
			err = s.dialect.release(ctx, c, s.texts, items, func(i int) { released = append(released, i) })
			return released, err
		})
		for _, i := range index {
			out[i], done[i] = failed("release", err), err != nil
		}
		if err == nil {
			for _, i := range released {
				done[index[i]] = true
			}
		}
	}
	var wg sync.WaitGroup
	slots := make(chan struct{}, awaitedRows)
	for i, l := range batch {
		if !done[i] {
			slots <- struct{}{}
			wg.Go(func() {
				out[i] = s.Release(ctx, l)
				<-slots
			})
		}
	}
	wg.Wait()
	return nil
}
