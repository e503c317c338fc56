// The Store: Acquire, Import, Close and the checks of requests.

package sqlstore

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math"
	"sync/atomic"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/storekit"
)

// Store keeps locks in tables of a SQL database. It has mode Exclusive, and returns errors.ErrUnsupported for
// the others. Its methods are safe for concurrent use.
type Store struct {
	driver.Base

	db      *sql.DB
	dialect dialect
	options Options
	calls   *storekit.Calls

	locating chan struct{} // has an element while a call looks for the tables
	located  atomic.Bool   // texts is set, and never changes again
	texts    *texts        // nil until then; every call waits for it

	poller  poller
	watches watches
}

var _ driver.Store = (*Store)(nil)

// New returns a store on a database that has the tables; see [CreateSchema]. It does no IO: the first
// call looks for the tables, and fails if the sessions of db have a setting with which locks do not work. The
// store does not close db. A nil options means the defaults.
//
// A store uses as many connections of db as it has calls under way. Give it a *sql.DB of its own: with a
// db.SetMaxOpenConns below that, calls wait for one another and for the program, renewals too. New
// refuses one connection. SQLite should have more than one, too, except in memory, and the pragmas that the
// package documentation names.
func New(db *sql.DB, d Dialect, options *Options) (*Store, error) {
	if db == nil {
		return nil, errors.New("sqlstore: the *sql.DB is nil")
	}
	if d.dialect == nil {
		return nil, errNoDialect
	}
	o, err := options.checked(d.dialect)
	if err != nil {
		return nil, err
	}
	least := d.traits().minConns
	if n := db.Stats().MaxOpenConnections; n > 0 && n < least {
		return nil, fmt.Errorf("sqlstore: the *sql.DB has %d connection (SetMaxOpenConns), want %d or more: a transaction of the program would keep renewals waiting", n, least)
	}
	s := &Store{
		db: db, dialect: d.dialect, options: o, calls: storekit.NewCalls(), locating: make(chan struct{}, 1),
		poller: poller{kick: make(chan struct{}, 1), waiters: make(map[string]*waiter)},
	}
	if !d.traits().schemas {
		s.texts = newTexts(d.dialect, o.in("main")) // not a temporary table of the same name
		s.located.Store(true)
	}
	return s, nil
}

// Acquire implements [driver.Store]. In the optimistic way a lock that is free, taken or already
// held by the owner costs one statement, which writes nothing if the lock is taken. A
// transaction decides while the key has waiters or owners that were given up. A request that is
// Stateful costs one more statement, which reads the state after the grant.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	if err := checkRequest(r); err != nil {
		return driver.Lease{}, err
	}
	sent := time.Now()
	a, err := s.acquire(ctx, r)
	if err != nil {
		return driver.Lease{}, failed("acquire", err)
	}
	if !a.granted {
		return driver.Lease{}, a.held(r.Key)
	}
	return driver.Lease{Request: r, Token: uint64(a.token), Sent: sent, Saved: a.saved}, nil
}

// acquire tries once to take the lock.
func (s *Store) acquire(ctx context.Context, r driver.Request) (answer, error) {
	return call(ctx, s, func(ctx context.Context, c *sql.Conn) (a answer, err error) {
		decided := false
		if !s.options.Pessimistic {
			a, decided, err = s.dialect.acquire(ctx, c, s.texts, r)
		}
		if err == nil && !decided {
			a, err = s.ask(ctx, c, r, 0, "")
		}
		if err != nil {
			return a, err
		}
		return s.withState(ctx, c, r, a)
	})
}

// answer is what the database returns for a request for a lock.
type answer struct {
	granted bool
	token   int64 // if granted
	left    int64 // otherwise: the ms until the blocking lease has ended, 0 if only waiters or a guard are in the way
	guarded bool  // an open transaction of the last holder is in the way
	entered bool  // the owner has a place in the queue
	age     int64 // if entered: for how many µs the lock has been held; less than 0 after a step of the clock
	ahead   int   // if entered: how many live places are before it

	saved *driver.Saved // if granted to a request that is Stateful
}

// held returns the error of an Acquire that was not granted.
func (a answer) held(key string) error {
	return &driver.HeldError{Key: key, ExpiresIn: time.Duration(a.left) * time.Millisecond}
}

// Describe implements [driver.Store].
func (s *Store) Describe() driver.Description {
	return driver.Description{
		Waits: true, ReleasesAll: true, Inspects: true, TimesWaiters: true, Lists: true, SetsMetadata: true, Saves: true, Imports: true,
		Keeps:  driver.ModesOf(driver.Exclusive),
		Yields: driver.ModesOf(driver.Exclusive),
	}
}

// Import implements [driver.Store]. The fields of a lease are all that another process needs.
func (s *Store) Import(l driver.Lease) (driver.Lease, error) {
	if err := checkRequest(l.Request); err != nil {
		return driver.Lease{}, err
	}
	if l.Token == 0 || l.Token > math.MaxInt64 {
		return driver.Lease{}, errors.New("sqlstore: the lease has the token of another store")
	}
	return l, nil
}

// Close ends all calls of the store, which then return [driver.ErrStoreClosed], as all later
// ones do. It does not close the *sql.DB, which belongs to the caller of New. Close waits up to
// 5 s for the driver to return from the calls. It is idempotent and returns nil unless that time
// has passed.
func (s *Store) Close() error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), 5*time.Second, errors.New("sqlstore: the driver has not returned from all calls"))
	defer cancel()
	return s.Shutdown(ctx)
}

// Shutdown is Close with a context, which bounds how long it waits.
func (s *Store) Shutdown(ctx context.Context) error {
	err := basic.Await(ctx, s.calls.End())
	s.poller.mu.Lock()
	s.poller.closed = true
	s.poller.mu.Unlock()
	s.poller.runs.Wait() // the goroutine is about to end
	return err
}

// checkRequest returns an error for a request that no store can grant.
func checkRequest(r driver.Request) error {
	if err := checkMode(r.Mode); err != nil {
		return err
	}
	switch {
	case r.Key == "" || len(r.Key) > driver.MaxKeyLen:
		return fmt.Errorf("sqlstore: %w: it has %d bytes, want 1 to %d", driver.ErrBadKey, len(r.Key), driver.MaxKeyLen)
	case !isOwner(r.Owner):
		return fmt.Errorf("sqlstore: the owner has %d bytes, want 2 to %d", len(r.Owner), maxOwnerLen)
	case r.TTL <= 0 || r.TTL > driver.MaxTTL:
		return fmt.Errorf("sqlstore: %w: %v, want up to %v", driver.ErrBadTTL, r.TTL, driver.MaxTTL)
	case len(r.Metadata()) > driver.MaxMetadataLen:
		return fmt.Errorf("sqlstore: the metadata have %d bytes, want at most %d", len(r.Metadata()), driver.MaxMetadataLen)
	}
	return nil
}

func checkMode(m driver.Mode) error {
	if m != driver.Exclusive {
		return fmt.Errorf("sqlstore: mode %v: %w", m, errors.ErrUnsupported)
	}
	return nil
}

// maxOwnerLen is more than any client uses.
const maxOwnerLen = 200

// isOwner reports whether an owner may hold a lock. In the table, an empty owner means a free
// lock, and the single byte of keptOwner one that is kept taken by nobody.
func isOwner(owner string) bool { return len(owner) > 1 && len(owner) <= maxOwnerLen }

// keptOwner is the owner of a lock that was released and is kept taken by nobody.
const keptOwner = "\x00"

// ms returns a duration in milliseconds, rounded up.
func ms(d time.Duration) int64 { return int64((d + time.Millisecond - 1) / time.Millisecond) }
