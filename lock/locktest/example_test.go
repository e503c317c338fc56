package locktest_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// Table is a minimal store: one row per key, as in a database, and transactions that
// change one row. Clients that wait for a lock poll it.
type Table struct {
	driver.Base

	mu         sync.Mutex           // stands for the transaction; guards all below
	rows       map[string]row       // by key; the row of a free lock stays because it has the last token
	tombstones map[string]time.Time // end of the refusal, by owner
}

type row struct {
	owner string
	token uint64
	ends  time.Time
}

func (r row) heldBy(owner string) bool { return r.owner == owner && time.Now().Before(r.ends) }

// extend never moves the end back, because a request with an earlier TTL may be executed late.
func (r *row) extend(ends time.Time) {
	if ends.After(r.ends) {
		r.ends = ends
	}
}

// NewTable returns an empty table.
func NewTable() *Table {
	return &Table{rows: map[string]row{}, tombstones: map[string]time.Time{}}
}

// Acquire implements [driver.Store].
func (t *Table) Acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	switch {
	case r.Mode != driver.Exclusive:
		return driver.Lease{}, errors.ErrUnsupported
	case ctx.Err() != nil:
		return driver.Lease{}, context.Cause(ctx)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now, has := time.Now(), t.rows[r.Key] // use the clock of the database, never that of the client
	switch left := has.ends.Sub(now); {
	case now.Before(t.tombstones[r.Owner]):
		return driver.Lease{}, driver.ErrNotAcquired
	case left <= 0:
		has.owner, has.token = r.Owner, has.token+1
	case has.owner != r.Owner:
		return driver.Lease{}, &driver.HeldError{Key: r.Key, ExpiresIn: left}
	} // otherwise it is a repeated Acquire
	has.extend(now.Add(r.TTL))
	t.rows[r.Key] = has
	return driver.Lease{Token: has.token}, nil
}

// Renew implements [renewal.Renewer].
func (t *Table) Renew(ctx context.Context, batch []driver.Lease, out []renewal.Outcome) error {
	if ctx.Err() != nil {
		return context.Cause(ctx) // all outcomes are Unknown
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, l := range batch {
		has := t.rows[l.Key]
		if !has.heldBy(l.Owner) || has.token != l.Token {
			out[i] = renewal.Lost
			continue
		}
		has.extend(time.Now().Add(l.TTL))
		t.rows[l.Key] = has
		out[i] = renewal.Renewed
	}
	return nil
}

// Release implements [driver.Store].
func (t *Table) Release(ctx context.Context, l driver.Lease) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(t.tombstones, func(_ string, until time.Time) bool { return !now.Before(until) })
	if l.Unanswered {
		t.tombstones[l.Owner] = now.Add(time.Minute)
	}
	has := t.rows[l.Key]
	if !has.heldBy(l.Owner) { // do not compare l.Token, because the client may not know it
		return driver.ErrNotHeld
	}
	has.ends = time.Time{}
	t.rows[l.Key] = has
	return nil
}

// A minimal store and a client that uses it.
func Example() {
	client, err := lock.New(NewTable(), nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close(context.Background())
	err = lock.Do(context.Background(), client.Mutex("orders"), func(context.Context, *lock.Held) error {
		_, err := client.Mutex("orders").TryLock(context.Background())
		fmt.Println("held by another:", errors.Is(err, driver.ErrNotAcquired))
		return nil
	})
	fmt.Println("error:", err)
	// Output:
	// held by another: true
	// error: <nil>
}
