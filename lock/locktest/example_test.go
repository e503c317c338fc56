package locktest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

// Table is the smallest store there can be: a row for each key, as a database has them,
// and transactions that change one row. Who waits for a lock asks again and again.
type Table struct {
	mu      sync.Mutex           // the transaction; guards all below
	rows    map[string]row       // by key. A row stays when the lock is free: its token is the last
	givenUp map[string]time.Time // until when owners are refused
}

type row struct {
	owner string
	token uint64
	ends  time.Time
}

func (r row) heldBy(owner string) bool { return r.owner == owner && time.Now().Before(r.ends) }

// NewTable returns an empty table.
func NewTable() *Table {
	return &Table{rows: map[string]row{}, givenUp: map[string]time.Time{}}
}

// Acquire implements [lock.Store].
func (t *Table) Acquire(ctx context.Context, r lock.Request) (lock.Lease, error) {
	switch {
	case r.Mode != lock.Exclusive:
		return lock.Lease{}, errors.ErrUnsupported
	case ctx.Err() != nil:
		return lock.Lease{}, context.Cause(ctx)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now, has := time.Now(), t.rows[r.Key] // the clock of the database, never that of the caller
	switch left := has.ends.Sub(now); {
	case now.Before(t.givenUp[r.Owner]):
		return lock.Lease{}, lock.ErrNotAcquired
	case left <= 0:
		has.owner, has.token = r.Owner, has.token+1
	case has.owner != r.Owner:
		return lock.Lease{}, &lock.HeldError{Key: r.Key, ExpiresIn: left}
	} // or else it is the same grant once more
	has.ends = now.Add(r.TTL)
	t.rows[r.Key] = has
	return lock.Lease{Token: has.token}, nil
}

// Renew implements [renewal.Renewer].
func (t *Table) Renew(ctx context.Context, batch []lock.Lease, out []renewal.Outcome) error {
	if ctx.Err() != nil {
		return context.Cause(ctx) // all are Unknown
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, l := range batch {
		has := t.rows[l.Key]
		if !has.heldBy(l.Owner) || has.token != l.Token {
			out[i] = renewal.Lost
			continue
		}
		has.ends = time.Now().Add(l.TTL)
		t.rows[l.Key] = has
		out[i] = renewal.Renewed
	}
	return nil
}

// Release implements [lock.Store].
func (t *Table) Release(ctx context.Context, l lock.Lease) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(t.givenUp, func(_ string, until time.Time) bool { return !now.Before(until) })
	if l.Unanswered {
		t.givenUp[l.Owner] = now.Add(time.Minute)
	}
	has := t.rows[l.Key]
	if !has.heldBy(l.Owner) { // whatever l.Token is: the client may not know it
		return lock.ErrNotHeld
	}
	has.ends = time.Time{}
	t.rows[l.Key] = has
	return nil
}

// The smallest store of one's own, and a client that uses it.
func Example() {
	client, err := lock.New(NewTable(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	err = lock.Do(context.Background(), client.Mutex("orders"), func(context.Context) error {
		_, err := client.Mutex("orders").TryLock(context.Background())
		fmt.Println("taken:", errors.Is(err, lock.ErrNotAcquired))
		return nil
	})
	fmt.Println("error:", err)
	// Output:
	// taken: true
	// error: <nil>
}
