package redisstore

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/lock"
)

const (
	defaultPrefix   = "lw:"
	defaultTimeout  = 3 * time.Second
	defaultPoolSize = 16
	maxPoolSize     = 10_000 // go-redis makes room for all of them at once

	minPlace = 3 * time.Second
	maxPlace = 10 * time.Second

	// memory is how long the last token outlives the moment it names: tokens rise
	// over any backward step of the server's clock that is smaller.
	memory = 10 * time.Minute

	// tombstone is how long an owner is refused that was released with a request
	// unanswered. It must exceed the longest time that one can still be on its way.
	tombstone = 60 * time.Second
)

// Options configure a Store. A nil *Options and zero fields mean the defaults.
type Options struct {
	// Prefix of all keys and channels, the same for all who share locks. Braces
	// are refused: the first pair of them in a key must be that around the name.
	// Default "lw:".
	Prefix string

	// Timeout bounds one request: an Acquire or Release is one, an Inspect up to two, a
	// ForceRelease up to three. The ctx may end it earlier. Default 3 s. Renewals have
	// the deadline of their ctx, and half a minute at most.
	Timeout time.Duration

	// Place is how long a place in the queue of a lock lasts without its waiter being
	// heard of, which asks three times in that time: the longest that dead waiters
	// hold up those behind them. It is what a lock that was handed over has left at
	// first, until a renewal when a quarter of that has passed. Default a third of the
	// TTL, 3 to 10 s; always at least a tenth of the TTL and at most all of it. Clients
	// may differ.
	Place time.Duration

	// PoolSize bounds the connections for those calls, which are made when needed: two
	// carry what many goroutines ask for at one time, the others are for when those
	// are not answered. As many more, at most eight, are for calls that come alone or
	// few at a time, and renewals have their own. A cluster has as many for each node.
	// Default 16; at most 10,000.
	PoolSize int
}

func (o *Options) withDefaults() (Options, error) {
	if o == nil {
		o = new(Options)
	}
	opts := *o
	if opts.Prefix == "" {
		opts.Prefix = defaultPrefix
	}
	if opts.Timeout == 0 {
		opts.Timeout = defaultTimeout
	}
	if opts.PoolSize == 0 {
		opts.PoolSize = defaultPoolSize
	}
	switch {
	case strings.ContainsAny(opts.Prefix, "{}"):
		return opts, fmt.Errorf("redisstore: Options.Prefix must hold no brace, got %q", opts.Prefix)
	case opts.Timeout < 0:
		return opts, fmt.Errorf("redisstore: Options.Timeout must be above 0, got %v", opts.Timeout)
	case opts.Place < 0:
		return opts, fmt.Errorf("redisstore: Options.Place must not be negative, got %v", opts.Place)
	case opts.PoolSize < 0 || opts.PoolSize > maxPoolSize:
		return opts, fmt.Errorf("redisstore: Options.PoolSize must be 1 to %d, got %d", maxPoolSize, opts.PoolSize)
	}
	return opts, nil
}

// Store is a lock.Store on a Redis server, or on a cluster, a lock.Waiter and a
// lock.Inspector. Make it with New: what the zero Store is asked for is an error. Its
// methods are safe for concurrent use. They return soon after their ctx has ended, even
// while the server hangs; what they have sent by then may still be executed. A nil ctx
// is an error. Errors name the key, of a batch one of them.
type Store struct {
	one           *node    // the server; nil on a cluster
	cluster       *cluster // nil on one server
	keysPerScript int
	prefix        string
	timeout       time.Duration
	secrets       []string // what no error may show
	user          string   // nor this, as a word

	placeFor time.Duration // of Options; 0: as the TTL is
	signals  *signals

	closing  chan struct{}      // closed when Close begins; nil in the zero Store
	endDials context.CancelFunc // of one server; a cluster does it itself
	mu       sync.Mutex         // guards closed, and running against a Wait that has begun
	closed   bool
	running  sync.WaitGroup // calls of the server that are under way
}

var _ lock.Store = (*Store)(nil)

// New returns a store on the server of a *redis.Client, or on the cluster of a
// *redis.ClusterClient, from whose options it makes clients of its own; see the
// package comment. The given one is not used otherwise and is never closed. Other
// clients, such as a ring, are refused with errors.ErrUnsupported. No IO is done.
// The store must be closed, which a lock.Client does with its own.
func New(rdb redis.UniversalClient, o *Options) (*Store, error) {
	opts, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	s := &Store{
		prefix:   opts.Prefix,
		timeout:  opts.Timeout,
		placeFor: opts.Place,
		closing:  make(chan struct{}),
	}
	switch given := rdb.(type) {
	case *redis.Client:
		if given == nil {
			return nil, errNilClient
		}
		var life context.Context
		life, s.endDials = context.WithCancel(context.Background())
		derived := derive(life, given.Options())
		s.one, s.keysPerScript = newNode(0, *derived, opts.PoolSize), keysPerScript
		s.secrets, s.user = []string{derived.Password}, derived.Username
	case *redis.ClusterClient:
		if given == nil {
			return nil, errNilClient
		}
		s.cluster, s.keysPerScript = newCluster(given.Options(), opts.PoolSize), 1
		s.secrets, s.user = []string{given.Options().Password}, given.Options().Username
	case nil:
		return nil, errNilClient
	default:
		return nil, fmt.Errorf("redisstore: rdb is a %T, only *redis.Client and *redis.ClusterClient are served: %w", rdb, errors.ErrUnsupported)
	}
	s.signals = newSignals(s.subscription, opts.Prefix)
	return s, nil
}

var errNilClient = errors.New("redisstore: rdb is nil")

// String and GoString keep the password of the server out of messages.
func (s *Store) String() string { return "redisstore with prefix " + quoted(s.prefix) }

// GoString is String for %#v.
func (s *Store) GoString() string { return "redisstore.Store{" + s.String() + "}" }

// Close ends the store: calls that are under way, and all later ones, return
// lock.ErrClosed. It waits until none is under way any more. The client that was given
// to New stays open. A second Close does nothing and returns nil.
func (s *Store) Close() error {
	if s.closing == nil {
		return fmt.Errorf("redisstore: close: %w", errZeroStore)
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	close(s.closing)
	s.mu.Unlock()
	s.signals.close()
	err := s.closeClients()
	s.running.Wait() // without connections they end at once
	if err != nil {
		return fmt.Errorf("redisstore: close: %w", err)
	}
	return nil
}

func (s *Store) closeClients() error {
	if s.cluster != nil {
		return s.cluster.close()
	}
	s.endDials()
	return s.one.close()
}

// subscription returns a subscription to nothing yet, and what reports at each beat
// whether it is still at the right place. In a cluster any node passes on what is
// published at another; but one that has ceased to serve may not belong to it any more.
func (s *Store) subscription(ctx context.Context) (ps *redis.PubSub, stays func() bool) {
	if s.cluster == nil {
		return s.one.rdb.Subscribe(ctx), func() bool { return true }
	}
	n := s.cluster.candidates()[0] // there is one, for the waiter was answered
	served, beats := s.cluster.serves(n), 0
	return n.rdb.Subscribe(ctx), func() bool {
		if beats++; beats%linger == 0 {
			s.cluster.refreshed() // no lock may have been at that node, to be sent elsewhere
		}
		return !served || s.cluster.serves(n)
	}
}

// heard notes what an exchange with a node tells of it.
func (s *Store) heard(n *node, err error) {
	if s.cluster != nil {
		s.cluster.heard(n, err)
	}
}

// Acquire implements [lock.Store]. It does not wait in the queue of the lock, and
// does not overtake it.
func (s *Store) Acquire(ctx context.Context, r lock.Request) (lock.Lease, error) {
	lease, err := s.acquire(ctx, r)
	var held *lock.HeldError
	if err != nil && !errors.As(err, &held) { // which names the key itself
		err = failed("acquire", r.Key, err)
	}
	return lease, err
}

func (s *Store) acquire(ctx context.Context, r lock.Request) (lock.Lease, error) {
	if err := checkAcquire(&r); err != nil {
		return lock.Lease{}, err
	}
	answer, err := s.ask(ctx, r, 0)
	if err != nil {
		return lock.Lease{}, err
	}
	switch answer.verdict {
	case granted:
		return s.lease(r, answer.token, time.Time{}), nil
	case taken:
		return lock.Lease{}, &lock.HeldError{Key: r.Key, ExpiresIn: answer.expiresIn}
	default:
		return lock.Lease{}, errGivenUp
	}
}

// ask runs the acquire script, for a place in the queue that lasts as long if the
// lock is taken, or for none.
func (s *Store) ask(ctx context.Context, r lock.Request, place time.Duration) (acquired, error) {
	if r.Mode != lock.Exclusive {
		return s.askShared(ctx, r, place)
	}
	k, name := s.keys(r.Key, r.Owner), named(&r)
	reply, err := s.run(ctx, acquireScript, r.Owner, nil, nil, 5, &k.lock, &k.token, &k.queue, &k.places, &k.tombstone,
		&name, r.TTL.Milliseconds(), place.Milliseconds(), memory.Milliseconds())
	if err != nil {
		return acquired{}, err
	}
	return parseAcquired(reply)
}

// Release implements [lock.Store]. The lock goes to the next in its queue.
func (s *Store) Release(ctx context.Context, l lock.Lease) error {
	if err := s.release(ctx, l); err != nil {
		return failed("release", l.Key, err)
	}
	return nil
}

func (s *Store) release(ctx context.Context, l lock.Lease) error {
	if err := check(&l.Request); err != nil {
		return err
	}
	var refuse time.Duration
	if l.Unanswered {
		refuse = tombstone
	}
	if l.Mode != lock.Exclusive {
		return s.releaseShared(ctx, l, refuse)
	}
	k, name := s.keys(l.Key, l.Owner), named(&l.Request)
	reply, err := s.run(ctx, releaseScript, l.Owner, nil, nil, 5, &k.lock, &k.token, &k.queue, &k.places, &k.tombstone,
		&name, refuse.Milliseconds(), memory.Milliseconds())
	if err != nil {
		return err
	}
	return parseReleased(reply)
}
