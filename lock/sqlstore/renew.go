package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"math"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

var _ renewal.Explainer[driver.Lease] = (*Store)(nil)

// Renew implements renewal.Renewer. In PostgreSQL a batch is one statement, which locks the rows
// in the order of their keys, so that two batches cannot block each other for ever.
func (s *Store) Renew(ctx context.Context, batch []driver.Lease, out []renewal.Outcome) error {
	return s.RenewExplained(ctx, batch, out, nil)
}

// RenewExplained implements renewal.Explainer. Each lease that is not held costs one read more.
func (s *Store) RenewExplained(ctx context.Context, batch []driver.Lease, out []renewal.Outcome, why []renewal.Denial) error {
	if err := cause(ctx); err != nil {
		return err
	}
	leases, index := unique(batch)
	if len(leases) == 0 {
		for i := range batch {
			out[i] = renewal.Lost
		}
		return nil
	}
	renewed, err := callWithin(ctx, s, func(ctx context.Context, c *sql.Conn) ([]bool, error) {
		renewed := make([]bool, len(leases))
		err := s.dialect.renew(ctx, c, s.texts, leases, func(i int) { renewed[i] = true })
		return renewed, err
	})
	if err != nil {
		return fmt.Errorf("sqlstore: renew %d leases: %w", len(batch), err)
	}
	for i := range batch {
		out[i] = renewal.Lost
		if n := index[i]; n >= 0 && renewed[n] {
			out[i] = renewal.Renewed
		}
	}
	s.explain(ctx, batch, out, why)
	return nil
}

// unique returns the leases of a batch that the database may hold, each once and with its
// longest TTL, and for each lease of the batch its index there, or -1.
func unique(batch []driver.Lease) (leases []renewItem, index []int) {
	type identity struct {
		key, owner string
		token      uint64
	}
	leases, index = make([]renewItem, 0, len(batch)), make([]int, len(batch))
	known := make(map[identity]int, len(batch))
	for i, l := range batch {
		id := identity{l.Key, l.Owner, l.Token}
		n, ok := known[id]
		switch {
		case !isOwner(l.Owner) || l.Mode != driver.Exclusive || l.Token > math.MaxInt64 || l.TTL <= 0 || l.TTL > driver.MaxTTL:
			n = -1
		case ok:
			leases[n].ttl = max(leases[n].ttl, ms(l.TTL))
		default:
			n = len(leases)
			known[id] = n
			leases = append(leases, renewItem{[]byte(l.Key), []byte(l.Owner), int64(l.Token), ms(l.TTL)})
		}
		index[i] = n
	}
	return leases, index
}

// explain says of the lost leases why they are lost, if the caller wants to know and the
// database answers.
func (s *Store) explain(ctx context.Context, batch []driver.Lease, out []renewal.Outcome, why []renewal.Denial) {
	var keys [][]byte
	var index []int
	for i := range min(len(why), len(out)) {
		if out[i] == renewal.Lost {
			keys, index = append(keys, []byte(batch[i].Key)), append(index, i)
		}
	}
	if len(keys) == 0 {
		return
	}
	taken, err := call(ctx, s, func(ctx context.Context, c *sql.Conn) ([]bool, error) {
		taken := make([]bool, len(keys))
		for n, key := range keys {
			var count int
			if err := c.QueryRowContext(ctx, s.texts.explain, key).Scan(&count); err != nil {
				return nil, err
			}
			taken[n] = count > 0
		}
		return taken, nil
	})
	if err != nil {
		return
	}
	for n, i := range index {
		why[i] = renewal.DeniedMissing
		if taken[n] {
			why[i] = renewal.DeniedTaken
		}
	}
}
