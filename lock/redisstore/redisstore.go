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

	// Timeout bounds one Acquire, Release, Inspect or ForceRelease; the ctx may end
	// it earlier. Default 3 s. Renewals have the deadline of their ctx, and half a
	// minute at most.
	Timeout time.Duration

	// PoolSize bounds the connections for those calls, which are made when needed;
	// calls beyond it wait for one. Renewals have up to 4 more. Default 16.
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
	case opts.PoolSize < 0:
		return opts, fmt.Errorf("redisstore: Options.PoolSize must be above 0, got %d", opts.PoolSize)
	}
	return opts, nil
}

// Store is a lock.Store on a Redis server. Its methods are safe for concurrent
// use. They return soon after their ctx has ended, even while the server hangs;
// what they have sent by then may still be executed.
type Store struct {
	rdb     *redis.Client
	prefix  string
	timeout time.Duration
	secrets []string // what no error may show

	closing chan struct{} // closed when Close begins
	mu      sync.Mutex    // guards closed, and running against a Wait that has begun
	closed  bool
	running sync.WaitGroup // calls of the server that are under way
}

var _ lock.Store = (*Store)(nil)

// New returns a store on the server of the given client, from whose options it
// makes a client of its own; see the package comment. The given one is not used
// otherwise and is never closed. A cluster or ring client is refused with
// errors.ErrUnsupported. No IO is done. The store must be closed, which a
// lock.Client does with its own.
func New(rdb redis.UniversalClient, o *Options) (*Store, error) {
	opts, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	given, err := single(rdb)
	if err != nil {
		return nil, err
	}
	derived := derive(given.Options(), opts.PoolSize)
	return &Store{
		rdb:     redis.NewClient(derived),
		prefix:  opts.Prefix,
		timeout: opts.Timeout,
		secrets: []string{derived.Password},
		closing: make(chan struct{}),
	}, nil
}

// Close ends the store: calls that are under way, and all later ones, return
// lock.ErrClosed. The client that was given to New stays open. A second Close does
// nothing and returns nil.
func (s *Store) Close() error {
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil
	}
	s.closed = true
	close(s.closing)
	s.mu.Unlock()
	err := s.rdb.Close()
	s.running.Wait() // without connections they end at once
	if err != nil {
		return fmt.Errorf("redisstore: close: %w", err)
	}
	return nil
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
	if err := check(&r); err != nil {
		return lock.Lease{}, err
	}
	k := s.keys(r.Key, r.Owner)
	reply, err := await(ctx, s, s.timeout, func(ctx context.Context) (any, error) {
		const place = 0 // do not wait
		return s.run(ctx, acquireScript, r.Owner, nil, nil, 5, &k.lock, &k.token, &k.queue, &k.places, &k.tombstone,
			&r.Owner, r.TTL.Milliseconds(), place, memory.Milliseconds())
	})
	if err != nil {
		return lock.Lease{}, err
	}
	answer, err := parseAcquired(reply)
	if err != nil {
		return lock.Lease{}, err
	}
	switch answer.verdict {
	case granted:
		return lock.Lease{Request: r, Token: answer.token, State: s.newState(r.Key, r.Owner, answer.token)}, nil
	case taken:
		return lock.Lease{}, &lock.HeldError{Key: r.Key, ExpiresIn: answer.expiresIn}
	default:
		return lock.Lease{}, fmt.Errorf("%w: the acquisition was given up", lock.ErrNotAcquired)
	}
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
	k := s.keys(l.Key, l.Owner)
	reply, err := await(ctx, s, s.timeout, func(ctx context.Context) (any, error) {
		return s.run(ctx, releaseScript, l.Owner, nil, nil, 5, &k.lock, &k.token, &k.queue, &k.places, &k.tombstone,
			&l.Owner, refuse.Milliseconds(), memory.Milliseconds())
	})
	if err != nil {
		return err
	}
	had, err := parseCode(reply, 2)
	if err != nil {
		return err
	}
	if had != hadLock {
		return lock.ErrNotHeld
	}
	return nil
}
