// The Store: its options, Acquire, Release, Import and Close.

package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
)

// Options configure a Store. A nil *Options and zero fields mean the defaults.
type Options struct {
	// Prefix begins the names of all keys. The default is no prefix, as in redsync, bsm/redislock,
	// redis-py and node-redlock.
	Prefix string

	// Timeout bounds one request, to within 10 ms. The ctx may end it earlier. Renewals have at least 3 s. Default 3 s.
	Timeout time.Duration

	// PoolSize bounds the connections for acquires and releases, per node of a cluster. The store uses at most
	// eight. Renewals have their own. Default 16; at most 10,000.
	PoolSize int

	// Instrument, if it is set, gets each client that the store makes, before its first use: 14 for a
	// server or a node of a cluster. It may add hooks, and set the Limiter of
	// its Options. A hook must not keep a command. A hook or a Limiter that blocks delays locks and renewals, beyond their ctx too. New
	// returns the error of Instrument; on a cluster, where clients are made when they are needed, calls
	// of the node fail with it.
	Instrument func(*redis.Client) error
}

func (o *Options) withDefaults() (Options, error) {
	if o == nil {
		o = new(Options)
	}
	opts := *o
	return opts, rediskit.CheckOptions("redlock", &opts.Timeout, &opts.PoolSize)
}

// Store is a driver.Store without tokens and without a queue. Make it with New; methods of the zero Store
// return an error. Its methods are safe for concurrent use. They return soon after their ctx has ended, even
// if the server hangs. The server may still execute what they have sent.
type Store struct {
	driver.Base

	closing basic.Closing
	redis   *redisconn.Client // nil in the zero Store
	prefix  string
}

var _ driver.Store = (*Store)(nil)

// New returns a store on the server of a *redis.Client or on the cluster of a *redis.ClusterClient.
// It makes its own clients from the options of rdb, and does not use or close rdb otherwise. Other
// clients, such as a *redis.Ring, are refused with errors.ErrUnsupported. New does no IO. The store
// must be closed; a lock.Client closes its store.
func New(rdb redis.UniversalClient, o *Options) (*Store, error) {
	opts, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	client, err := redisconn.New(rdb, redisconn.Options{Timeout: opts.Timeout, PoolSize: opts.PoolSize, Instrument: opts.Instrument})
	if err != nil {
		return nil, fmt.Errorf("redlock: %w", err)
	}
	return &Store{redis: client, prefix: opts.Prefix}, nil
}

// String returns a text without the password of the server.
func (s *Store) String() string { return "redlock with prefix " + basic.Quote(s.prefix) }

// GoString returns the text of String for the verb %#v.
func (s *Store) GoString() string { return "redlock.Store{" + s.String() + "}" }

// Close calls [Store.Shutdown] with a ctx that ends after one second.
func (s *Store) Close() error { return rediskit.Close(s.Shutdown) }

// Shutdown closes the store. Calls under way and all later calls return driver.ErrStoreClosed.
// Shutdown closes all connections, even if ctx has ended, and then waits until all calls have
// returned or ctx ends. Shutdown and Close are idempotent: every call waits until the store is
// closed or its own ctx ends, and returns the same result.
func (s *Store) Shutdown(ctx context.Context) error {
	return rediskit.Shutdown(ctx, "redlock", s.redis, &s.closing, s.end)
}

// end closes the connections and waits for the calls.
func (s *Store) end() error {
	err := s.redis.Close()
	s.redis.Wait() // the calls end at once, because their connections are closed
	return err
}

// Describe implements [driver.Store]. The store does not know servers behind Sentinel.
func (s *Store) Describe() driver.Description {
	return driver.Description{ReleasesAll: true, Inspects: true, Imports: true, Addresses: s.redis.Addresses()}
}

// Acquire implements [driver.Store].
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	l, err := s.acquire(ctx, r)
	if err != nil && !errors.As(err, new(*driver.HeldError)) { // a HeldError names the key itself
		err = failed("acquire", err)
	}
	return l, err
}

func (s *Store) acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	k, err := s.keys(&r)
	if err != nil {
		return driver.Lease{}, err
	}
	owner, ttl := r.Owner, r.TTL.Milliseconds()
	reply, err := s.redis.Run(ctx, acquireScript, r.Owner, []any{nil, nil, 2, &k.lock, &k.tombstone, &owner, ttl})
	if err != nil {
		return driver.Lease{}, err
	}
	answer, left, err := parseAcquired(reply.Value)
	switch {
	case err != nil:
		return driver.Lease{}, err
	case answer == granted:
		s.redis.Hold(redisconn.SlotOf(k.lock), r.TTL)
		return driver.Lease{Request: r, Sent: reply.Sent}, nil
	case answer == taken:
		return driver.Lease{}, &driver.HeldError{Key: r.Key, ExpiresIn: left}
	}
	return driver.Lease{}, errGivenUp
}

// Release implements [driver.Store].
func (s *Store) Release(ctx context.Context, l driver.Lease) error {
	return failed("release", s.release(ctx, &l))
}

func (s *Store) release(ctx context.Context, l *driver.Lease) error {
	k, err := s.keys(&l.Request)
	if err != nil {
		return err
	}
	reply, err := s.redis.Run(ctx, releaseScript, l.Owner, releaseArgs(l, k))
	if err != nil {
		return err
	}
	return rediskit.ParseDone(reply.Value)
}

// releaseArgs returns the arguments of the release script. The first two are nil, because the client
// sets them.
func releaseArgs(l *driver.Lease, k keys) []any {
	owner, refuse := l.Owner, time.Duration(0)
	if l.Unanswered {
		refuse = rediskit.Tombstone
	}
	return []any{nil, nil, 2, &k.lock, &k.tombstone, &owner, refuse.Milliseconds()}
}

// Import implements [driver.Store]. Any store with the same servers and [Options.Prefix] can take
// over the lease.
func (s *Store) Import(l driver.Lease) (driver.Lease, error) {
	_, err := s.keys(&l.Request)
	if err == nil && l.Token != 0 {
		err = fmt.Errorf("the token must be 0, because this store has none, got %d", l.Token)
	}
	if err != nil {
		return driver.Lease{}, failed("import", err)
	}
	l.State = nil
	return l, nil
}
