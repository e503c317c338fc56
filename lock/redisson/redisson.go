// The Store: its kinds, its options and its Close.

package redisson

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
)

// Kind is the class of Redisson with which a Store shares its locks in mode Exclusive.
type Kind uint8

const (
	// KindLock is RLock, without fencing tokens and without order. A Store of this kind also has the
	// modes Read and Write, with the format of RReadWriteLock.
	KindLock Kind = iota

	// KindFencedLock is RFencedLock, with fencing tokens and without order.
	KindFencedLock

	// KindFairLock is RFairLock, which serves waiters in order and has no fencing tokens.
	KindFairLock
)

// String returns the name of the class in Redisson.
func (k Kind) String() string {
	switch k {
	case KindLock:
		return "RLock"
	case KindFencedLock:
		return "RFencedLock"
	case KindFairLock:
		return "RFairLock"
	}
	return "unknown kind"
}

// Sharding selects how the processes of a cluster announce releases to each other, as
// ShardedSubscriptionMode does in Redisson.
type Sharding uint8

const (
	// ShardingAuto uses SPUBLISH on a cluster that knows it, Redis 7 and later.
	ShardingAuto Sharding = iota

	// ShardingOn always uses SPUBLISH on a cluster.
	ShardingOn

	// ShardingOff always uses PUBLISH.
	ShardingOff
)

const (
	defaultFairWait = 300 * time.Second

	// defaultWatchdogTTL is the default of lockWatchdogTimeout in Redisson's Config.
	defaultWatchdogTTL = 30 * time.Second
)

// Options configure a Store. A nil *Options and zero fields mean the defaults.
type Options struct {
	// Kind selects the format of locks in mode Exclusive. Default KindLock.
	Kind Kind

	// Prefix is put before the names of all locks, as a NameMapper does in Redisson. Default none: the key is the name.
	Prefix string

	// Sharding must be as in the Config of Redisson: ShardingOff before release 3.22, ShardingAuto
	// from 3.22 to 3.28, and from 3.29 on as ShardedSubscriptionMode of the JVMs. Otherwise a release wakes only the waiters that
	// have made the same choice, and others wait until the lease ends. It has no effect without a
	// cluster. Default ShardingAuto.
	Sharding Sharding

	// FairWait is fairLockWaitTimeout of Redisson's Config: a killed waiter of an RFairLock keeps its
	// place for at most the rest of the lease and FairWait. Redisson uses it as the change
	// of all places after each grant, so it must be the same in all processes. Default 5 minutes.
	FairWait time.Duration

	// WatchdogTTL is lockWatchdogTimeout of Redisson's Config, or the shortest of them if the JVMs
	// differ. A reader of an RReadWriteLock must not have a longer TTL, because a renewal of a JVM
	// sets the expiry of the whole lock to that time. Acquire, Wait and Renew refuse such a reader
	// with ErrBadTTL; see "Readers" in the documentation of the package. At least driver.MinTTL.
	// Default 30 s, as in Redisson.
	WatchdogTTL time.Duration

	// Timeout bounds one request, to within 10 ms. The ctx may end it earlier. Default 3 s.
	Timeout time.Duration

	// PoolSize bounds the connections to a node that carry acquires and releases. The store uses at most
	// eight. Default 16; at most 10,000.
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
	opts.FairWait = cmp.Or(opts.FairWait, defaultFairWait)
	opts.WatchdogTTL = cmp.Or(opts.WatchdogTTL, defaultWatchdogTTL)
	switch {
	case opts.Kind > KindFairLock:
		return opts, fmt.Errorf("redisson: Options.Kind must be KindLock, KindFencedLock or KindFairLock, got %d", opts.Kind)
	case opts.Sharding > ShardingOff:
		return opts, fmt.Errorf("redisson: Options.Sharding must be ShardingAuto, ShardingOn or ShardingOff, got %d", opts.Sharding)
	case opts.FairWait < time.Millisecond:
		return opts, fmt.Errorf("redisson: Options.FairWait must be at least 1ms, got %v", opts.FairWait)
	case opts.WatchdogTTL < driver.MinTTL:
		return opts, fmt.Errorf("redisson: Options.WatchdogTTL must be at least %v, got %v", driver.MinTTL, opts.WatchdogTTL)
	}
	return opts, rediskit.CheckOptions("redisson", &opts.Timeout, &opts.PoolSize)
}

// Store is a driver.Store whose locks exclude those of Redisson. Make it with New;
// methods of the zero Store return an error. Its methods are safe for concurrent use. They return soon after
// their ctx has ended, even if the server hangs. The server may still execute what they have sent.
type Store struct {
	driver.Base

	closing basic.Closing
	redis   *redisconn.Client // nil in the zero Store
	options Options
	wakeups *wakeups

	sharded atomic.Int32 // whether SPUBLISH is used: one of the constants of Sharding, ShardingAuto until that is known
}

var _ driver.Store = (*Store)(nil)

// New returns a store on the server of a *redis.Client or on the cluster of a
// *redis.ClusterClient. It makes its own connections from the options of rdb, does not use rdb
// otherwise and never closes it. Other clients are refused with errors.ErrUnsupported. New does no
// IO. The store must be closed; a lock.Client closes its store.
func New(rdb redis.UniversalClient, o *Options) (*Store, error) {
	opts, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	client, err := redisconn.New(rdb, redisconn.Options{Timeout: opts.Timeout, PoolSize: opts.PoolSize, Instrument: opts.Instrument})
	if err != nil {
		return nil, fmt.Errorf("redisson: %w", err)
	}
	s := &Store{redis: client, options: opts}
	s.sharded.Store(int32(opts.Sharding))
	if !client.IsCluster() {
		s.sharded.Store(int32(ShardingOff))
	}
	s.wakeups = newWakeups(client, rediskit.NoMessages(client))
	return s, nil
}

// String returns a text without the password of the server.
func (s *Store) String() string {
	return "redisson store of " + s.options.Kind.String() + " with prefix " + basic.Quote(s.options.Prefix)
}

// GoString returns the text of String for the verb %#v.
func (s *Store) GoString() string { return "redisson.Store{" + s.String() + "}" }

// Close calls [Store.Shutdown] with a ctx that ends after one second.
func (s *Store) Close() error { return rediskit.Close(s.Shutdown) }

// Shutdown closes the store. Calls under way and all later calls
// return driver.ErrStoreClosed. Shutdown closes all connections, even if ctx has ended, and then
// waits until all calls have returned or ctx ends. The client that was given to New stays open.
// Shutdown and Close are idempotent: every call waits, and returns the same result.
func (s *Store) Shutdown(ctx context.Context) error {
	return rediskit.Shutdown(ctx, "redisson", s.redis, &s.closing, s.end)
}

// end closes everything and waits for it.
func (s *Store) end() error {
	subscriptions := s.wakeups.stop()
	for _, sub := range subscriptions {
		sub.Cancel()
	}
	err := s.redis.Close()
	var wg sync.WaitGroup
	for _, sub := range subscriptions {
		wg.Go(sub.Close)
	}
	wg.Wait()
	s.redis.Wait() // the calls end at once, because their connections are closed
	return err
}

// Describe implements [driver.Store]. Only an RFairLock has a queue on the server. The address is
// that of the server, or those that the cluster client was given. The store does not know servers
// behind Sentinel.
func (s *Store) Describe() driver.Description {
	d := driver.Description{Waits: true, Inspects: true, Addresses: s.redis.Addresses()}
	if s.options.Kind != KindFairLock {
		d.Unordered = driver.ModesOf(driver.Exclusive, driver.Read, driver.Write)
	}
	return d
}
