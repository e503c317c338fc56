// Renew, and leases whose rows are locked.

package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/storekit"
	"github.com/leasewheel/leasewheel/renewal"
)

// Renew implements renewal.Renewer. In PostgreSQL a batch is one statement. It locks the rows
// in the order of their keys, skips locked rows, and finds the reason of each loss.
//
// A row that another transaction has locked costs the other leases of the batch nothing: its lease is
// renewed by a call of its own, for up to half of the time that ctx leaves if there are others.
func (s *Store) Renew(ctx context.Context, batch []driver.Lease, out []renewal.Outcome) error {
	if err := basic.Cause(ctx); err != nil {
		return err
	}
	leases, index := unique(batch)
	all, err := s.renew(ctx, leases, false)
	if err == nil {
		err = s.renewLocked(ctx, leases, all)
	}
	if err != nil {
		err = fmt.Errorf("sqlstore: renew %d leases: %w", len(batch), err)
	}
	if all == nil {
		return err
	}
	for i, n := range index {
		if n < 0 {
			out[i] = renewal.Lost
			continue
		}
		out[i] = outcomes[all[n]]
	}
	return err
}

var outcomes = [...]renewal.Outcome{foundLocked: renewal.Unknown, foundRenewed: renewal.Renewed, foundTaken: renewal.LostTaken, foundMissing: renewal.LostMissing}

func (s *Store) renew(ctx context.Context, leases []renewItem, wait bool) ([]found, error) {
	if len(leases) == 0 {
		return []found{}, nil
	}
	return callWithin(ctx, s, 0, func(ctx context.Context, c *sql.Conn) ([]found, error) {
		all, err := s.dialect.renew(ctx, c, s.texts, leases, wait)
		if err != nil {
			return nil, err // a transaction that fails has renewed nothing
		}
		return all, nil
	})
}

const (
	awaitedRows = 4                      // locked rows for which a batch waits at one time, each on a connection
	lockedPause = 100 * time.Millisecond // the longest time between two tries to renew more of them
	hurry       = 200 * time.Millisecond // the time for locked rows if the holder of another lease must learn of its loss
)

// renewLocked renews the leases whose rows were locked, and returns an error if some rows stay so. A call that
// waits in the queue for a row gets it even if others lock it all the time. For many rows that would
// take too many connections, so they are tried together from time to time.
func (s *Store) renewLocked(ctx context.Context, leases []renewItem, all []found) error {
	locked := indexesOf(all, foundLocked)
	if len(locked) == 0 {
		return nil
	}
	left := s.options.Timeout
	if end, ok := ctx.Deadline(); ok {
		left = time.Until(end)
	}
	if len(locked) < len(all) { // the others are to be notified
		left /= 2
	}
	left -= left / 20 // the error must be about the row, not the end of ctx
	if slices.Contains(all, foundTaken) || slices.Contains(all, foundMissing) {
		left = min(left, hurry)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, left, errRowLocked)
	defer cancel()
	most := awaitedRows
	if n := s.db.Stats().MaxOpenConnections; n > 0 {
		most = min(most, max(n/4, 1)) // the rest is for other calls
	}
	var err error
	for pause := time.Millisecond; len(locked) > most && err == nil; pause = min(2*pause, lockedPause) {
		if basic.Sleep(ctx, pause) == nil {
			err = s.renewSome(ctx, leases, all, locked, false)
		} else {
			err = context.Cause(ctx)
		}
		locked = indexesOf(all, foundLocked)
	}
	if err == nil {
		err = s.awaitEach(ctx, leases, all, locked)
	}
	if locked = indexesOf(all, foundLocked); len(locked) == 0 {
		return nil
	}
	if len(leases) == 1 { // the client adds the key
		return err
	}
	return fmt.Errorf("%s: %w", basic.Quote(string(leases[locked[0]].key)), err)
}

// errRowLocked is the cause of a renewal that has waited for a row in vain.
var errRowLocked = driver.Unanswered.Error(errors.New("another transaction keeps the row of the key locked"))

// awaitEach renews leases on connections of their own, and returns an error if one row stays locked.
func (s *Store) awaitEach(ctx context.Context, leases []renewItem, all []found, locked []int) error {
	return storekit.Each(len(locked), len(locked), func(n int) (err error) {
		i := locked[n]
		// What a statement has read before it has waited may be out of date, so the next one does not wait.
		for wait := true; all[i] == foundLocked && err == nil; wait = !wait {
			err = s.renewSome(ctx, leases, all, []int{i}, wait)
		}
		return err
	})
}

// renewSome renews some of the leases again.
func (s *Store) renewSome(ctx context.Context, leases []renewItem, all []found, some []int, wait bool) error {
	items := make([]renewItem, len(some))
	for n, i := range some {
		items[n] = leases[i]
	}
	again, err := s.renew(ctx, items, wait)
	for n, f := range again {
		all[some[n]] = f
	}
	return err
}

func indexesOf(all []found, f found) (indexes []int) {
	for i := range all {
		if all[i] == f {
			indexes = append(indexes, i)
		}
	}
	return indexes
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
