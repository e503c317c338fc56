// The Store: its options, Acquire, Release, Import, events and Close.

package redisstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/pubsub"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
	"github.com/leasewheel/leasewheel/lock/internal/redisnode"
	"github.com/leasewheel/leasewheel/renewal"
)

const (
	defaultPrefix = "lw:"

	minPlace = 3 * time.Second
	maxPlace = 10 * time.Second

	// tokenTTL is how long the last token outlives the moment that it names. Tokens rise
	// in spite of any smaller backward step of the server's clock.
	tokenTTL = 10 * time.Minute
)

// Options configure a Store. A nil *Options and zero fields mean the defaults.
type Options struct {
	// Prefix begins the names of all keys and channels. All clients that share locks use
	// the same one. It must not contain braces, because the first pair of braces in a key
	// must enclose the name of the lock. Default "lw:".
	Prefix string

	// Timeout bounds one request, to within 10 ms. The ctx may end it earlier. An Acquire or Release is one
	// request, and a second one where scripts must not publish; an Inspect is up to two. A ForceRelease is up to three, and one more for
	// every 400 holders. Renewals have at least 3 s. Default 3 s.
	Timeout time.Duration

	// Place is how long a place in the queue of a lock lasts if the server hears nothing
	// from its waiter. A waiter polls three times in that time. Place is the longest time
	// for which dead waiters delay the ones behind them. A lock that was handed over is valid until
	// the place would have ended, and is renewed after a quarter of that time.
	// Default a third of the TTL, within 3 to 10 s. The store keeps it between the TTL and
	// a tenth of it or 10 s, whichever is less. If it is below a tenth of the TTL, a lock that is
	// handed over takes a third script, which gives it its TTL. Clients may use different values.
	Place time.Duration

	// PoolSize bounds the connections for acquisitions that Replicas confirm. On a cluster it is per node.
	// Below 8 it also bounds those for other acquisitions and releases. Default 16; at most 10,000.
	PoolSize int

	// Replicas asks how many replicas have a lock before it counts as acquired. The zero value
	// does not ask.
	Replicas Replicas

	// Instrument, if it is set, gets each client that the store makes, before its first use: 14 for a
	// server or a node of a cluster, and PoolSize more with Replicas. It may add hooks, and set the Limiter of
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
	opts.Prefix = cmp.Or(opts.Prefix, defaultPrefix)
	switch {
	case strings.ContainsAny(opts.Prefix, "{}"):
		return opts, fmt.Errorf("redisstore: Options.Prefix must not contain a brace, got %q", opts.Prefix)
	case opts.Place < 0:
		return opts, fmt.Errorf("redisstore: Options.Place must not be negative, got %v", opts.Place)
	}
	err := opts.Replicas.setDefaults()
	if err == nil {
		err = rediskit.CheckOptions("redisstore", &opts.Timeout, &opts.PoolSize)
	}
	return opts, err
}

// Store is a driver.Store on a Redis server or on a cluster. Make it with New; methods of the zero Store return an error. Its
// methods are safe for concurrent use. They return soon after their ctx has ended, even
// if the server hangs. The server may still execute what they have sent. A nil ctx is an
// error. Errors do not name the key; package lock adds it.
type Store struct {
	driver.Base

	closing      basic.Closing
	redis        *redisconn.Client // nil in the zero Store
	subscription *pubsub.Subscription
	prefix       string
	placeFor     time.Duration // Options.Place; 0 means that it follows from the TTL
	timeout      time.Duration
	replicas     Replicas
	acks         ackCounters
	watches      watches
	mute         atomic.Bool // the server has refused a message of the store itself
}

var _ driver.Store = (*Store)(nil)

// New returns a store on the server of a *redis.Client or on the cluster of a
// *redis.ClusterClient. It makes its own clients from the options of rdb; see the package
// comment. It does not use rdb otherwise and never closes it. New does no IO. The store must be
// closed; a lock.Client closes its store.
//
// The connections of the store are its own, because neither a burst of other requests nor calls that were
// given up may delay a renewal. Its clients repeat no request, because a lock that was given up must
// not be taken later.
//
// Other clients are refused with errors.ErrUnsupported. A *redis.Ring is one of them: it moves keys to
// other servers while one does not answer, and two clients could then hold the same lock.
func New(rdb redis.UniversalClient, o *Options) (*Store, error) {
	opts, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	client, err := redisconn.New(rdb, redisconn.Options{Timeout: opts.Timeout, PoolSize: opts.PoolSize, Acks: opts.Replicas.Count > 0, Instrument: opts.Instrument})
	if err != nil {
		return nil, fmt.Errorf("redisstore: %w", err)
	}
	client.Pattern = opts.Prefix + "*"
	s := &Store{
		redis:    client,
		prefix:   opts.Prefix,
		placeFor: opts.Place,
		timeout:  opts.Timeout,
		replicas: opts.Replicas,
	}
	open := func(ctx context.Context) (*redis.PubSub, func() bool) { return client.Subscribe(ctx, nil) }
	s.subscription = pubsub.New(open, signals{}, pubsub.Options{Prefix: opts.Prefix, Unconfirmed: rediskit.NoMessages(client), Prove: s.prove})
	return s, nil
}

// String returns a text without the password of the server.
func (s *Store) String() string { return "redisstore with prefix " + basic.Quote(s.prefix) }

// GoString returns the text of String for the verb %#v.
func (s *Store) GoString() string { return "redisstore.Store{" + s.String() + "}" }

// Close calls [Store.Shutdown] with a ctx that ends after one second.
func (s *Store) Close() error { return rediskit.Close(s.Shutdown) }

// Shutdown closes the store. Calls under way and all later calls return driver.ErrStoreClosed.
// Shutdown closes all connections, even if ctx has ended, and then waits until all calls
// have returned. If ctx ends before, it returns the cause of that. Only a function that the
// user has set in the redis.Options can then still be running, for example a Dialer that
// ignores its ctx. Its goroutine ends when the function returns. The client that was given
// to New stays open. Shutdown and Close are idempotent: every call waits until the store is
// closed or its own ctx ends, and returns the same result.
func (s *Store) Shutdown(ctx context.Context) error {
	return rediskit.Shutdown(ctx, "redisstore", s.redis, &s.closing, s.end)
}

// end closes everything and waits for it.
func (s *Store) end() error {
	s.subscription.Cancel()
	err := s.redis.Close()
	s.subscription.Close()
	s.redis.Wait() // the calls end at once, because their connections are closed
	return err
}

// Acquire implements [driver.Store]. It takes no place in the queue of the lock, and does
// not overtake the waiters there.
func (s *Store) Acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	answer, err := acquired{}, check(&r, true)
	if err == nil {
		answer, err = s.sendAcquire(ctx, r, 0)
	}
	switch {
	case err != nil:
	case answer.verdict == granted:
		lease := s.lease(r, answer.token, answer.sent)
		lease.Saved = answer.saved
		if s.replicas.Count > 0 {
			err = s.confirm(ctx, &lease)
		}
		if err == nil {
			return lease, nil
		}
	case answer.verdict == taken:
		held := &driver.HeldError{Key: r.Key, ExpiresIn: answer.expiresIn}
		if members := r.Members(); answer.member > 0 && answer.member <= int64(len(members)) {
			held.Member = members[answer.member-1]
		}
		return driver.Lease{}, held // it names the key itself
	default:
		err = errGivenUp
	}
	return driver.Lease{}, failed("acquire", s.nameForeign(ctx, &r, err))
}

// nameForeign returns err, the error of a request for a lock. If that is driver.ErrWrongType, the text of the result names
// the key of Redis that is no part of such a lock, and its type. That needs the right +type.
func (s *Store) nameForeign(ctx context.Context, r *driver.Request, err error) error {
	if !errors.Is(err, driver.ErrWrongType) {
		return err
	}
	keys := s.sharedKeys(r.Key, r.Owner)
	parts := []struct{ key, is string }{{keys.lock, "zset"}, {keys.queue, "zset"}, {keys.token, "string"}, {keys.places, "zset"}, {keys.records, "hash"}, {keys.members, "hash"}}
	if r.Mode == driver.Exclusive {
		parts = parts[:4]
		parts[0].is, parts[1].is = "string", "list"
	}
	node, failure := s.redis.Master(ctx, redisconn.SlotOf(keys.lock))
	if failure != nil {
		return err
	}
	commands := make([]*redisconn.Command, len(parts))
	for i, p := range parts {
		commands[i] = redisconn.NewCommand("type", p.key)
	}
	if s.redis.Do(ctx, node, commands...) != nil {
		return err
	}
	foreign, is := keys.lock, "a value"
	for i := len(parts) - 1; i >= 0; i-- {
		switch found, _ := commands[i].Reply.(string); {
		case i == 0 && found == parts[0].is && foreign == keys.lock, found != "" && found != "none" && found != parts[i].is:
			foreign, is = parts[i].key, "a "+found
		}
	}
	return foreignError(fmt.Sprintf("the key %s of Redis holds %s that is no part of a lock of this kind; use another name or Options.Prefix", basic.Quote(foreign), is))
}

// foreignError is driver.ErrWrongType with a text that names the key of Redis.
type foreignError string

func (e foreignError) Error() string { return string(e) }

// Unwrap makes it match driver.ErrWrongType.
func (foreignError) Unwrap() error { return driver.ErrWrongType }

// sendAcquire runs the acquire script. If the lock is taken and place is above 0, the owner
// gets a place of that length in the queue.
func (s *Store) sendAcquire(ctx context.Context, r driver.Request, place time.Duration) (acquired, error) {
	if r.Mode != driver.Exclusive {
		return s.sendAcquireShared(ctx, r, place)
	}
	count := plainKeys
	if r.Stateful() {
		count = statefulKeys // an answer that grants the lock has the state
	}
	durations := []time.Duration{r.TTL, place}
	if place == 0 {
		durations = durations[:1]
	}
	c, args := s.newExclusiveCall(&r, count, durations...)
	reply, err := s.redis.Run(ctx, acquireScript, r.Owner, args)
	if err != nil {
		return acquired{}, err
	}
	reply.Value = s.result(ctx, c.keys.lock, reply.Value)
	c.free()
	return parseAcquired(r.Stateful(), reply)
}

// Describe implements [driver.Store]. The store can keep locks of the modes Exclusive and Members.
// The address is that of the server, or those that the cluster client was given. The store does not
// know servers behind Sentinel. Renewals count in Replicas if Replicas.Renewals is set, and
// Replicas.Count replicas are enough.
func (s *Store) Describe() driver.Description {
	return driver.Description{
		Waits: true, ReleasesAll: true, Inspects: true, TimesWaiters: true, Lists: true, SetsMetadata: true, Saves: true, Imports: true,
		Keeps: keeps, Yields: yields, Addresses: s.redis.Addresses(), Replicas: s.acks.stats(),
	}
}

var keeps = driver.ModesOf(driver.Exclusive, driver.Members)

// ReportEvents implements [driver.Store]. The store then asks each server for its run_id
// with the first renewals after a new connection, by INFO server. A user without the right to that
// command is refused once for each server, and [Store.Check] finds it. A fail-over is then noticed on
// a cluster, or if the server refuses writes because it is a replica now. While leases are held, it also keeps a connection to
// each server, and reports if that ends and can be made again.
func (s *Store) ReportEvents(report func(renewal.Event)) {
	rediskit.ReportEvents(s.redis, report)
}

// Import implements [driver.Store]. Any store with the same servers and [Options.Prefix] can take
// over the lease.
func (s *Store) Import(l driver.Lease) (driver.Lease, error) {
	if err := checkImport(&l); err != nil {
		return driver.Lease{}, failed("import", err)
	}
	imported := s.lease(l.Request, l.Token, l.Sent)
	imported.Unanswered = l.Unanswered
	return imported, nil
}

func checkImport(l *driver.Lease) error {
	if l.Token == 0 || l.Token > maxToken {
		return fmt.Errorf("the token must be 1 to %d, got %d", int64(maxToken), l.Token)
	}
	return check(&l.Request, true)
}

// Release implements [driver.Store]. The lock goes to the first live waiter in its queue,
// unless it is kept; see [driver.Description.Keeps].
func (s *Store) Release(ctx context.Context, l driver.Lease) error {
	if err := check(&l.Request, false); err != nil {
		return failed("release", err)
	}
	sc, args, c := s.releaseArgs(&l)
	reply, err := s.redis.Run(ctx, sc, l.Owner, args)
	if err == nil {
		err = parseReleased(s.result(ctx, *args[3].(*string), reply.Value))
		if c != nil {
			c.free()
		}
	}
	if err != nil {
		return failed("release", err)
	}
	return nil
}

// releaseArgs returns the script that releases a lease, and its arguments. The first two are
// nil, because the client sets them. The call that holds the arguments may be freed after a reply;
// it is nil in the shared modes.
func (s *Store) releaseArgs(l *driver.Lease) (*redisnode.Script, []any, *exclusiveCall) {
	var refuse time.Duration
	if l.Unanswered {
		refuse = rediskit.Tombstone
	}
	if l.Mode != driver.Exclusive {
		k := s.sharedKeys(l.Key, l.Owner)
		owner := wireOwner(&l.Request)
		args := []any{
			nil, nil, 7,
			&k.lock, &k.token, &k.queue, &k.places, &k.records, &k.members, &k.tombstone,
			&owner, refuse.Milliseconds(), tokenTTL.Milliseconds(),
		}
		if keep := l.Keep(); keep > 0 && keeps.Has(l.Mode) {
			args = append(args, keep.Milliseconds())
		}
		return sharedReleaseScript, args, nil
	}
	count, keep := fewestKeys, time.Duration(0)
	if refuse > 0 {
		count = plainKeys
	}
	if l.Attrs != nil {
		keep = l.Keep()
		if l.Metadata() != "" || l.Stateful() {
			count = allKeys
		}
	}
	durations := []time.Duration{refuse, keep + time.Millisecond} // the server rounds the time of an expiry down
	switch {
	case keep > 0:
	case refuse > 0:
		durations = durations[:1]
	default:
		durations = nil
	}
	c, args := s.newExclusiveCall(&l.Request, count, durations...)
	return releaseScript, args, c
}
