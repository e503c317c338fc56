// The Store: its options, its errors and its Close.

package etcdstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/status"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/storekit"
)

// Options configures a Store. A nil *Options and zero fields mean the defaults.
type Options struct {
	// Prefix is the beginning of all keys of the store, by default "leasewheel/". All processes
	// that share locks must have the same one. It is at most 256 bytes long.
	Prefix string

	// MinTTL is the shortest TTL that the server grants, in whole seconds. It is one and a half
	// election timeouts, rounded up: 2 s, the default, for the default election timeout of a
	// second. A server that grants a longer TTL than asked for makes Acquire fail with ErrBadTTL.
	MinTTL time.Duration
}

const (
	defaultPrefix = "leasewheel/"
	maxPrefixLen  = 256
	defaultMinTTL = 2 * time.Second

	// slack is how late a server may remove expired leases. It looks for them every 500 ms, and
	// removes them through its log.
	slack = 2 * time.Second

	tombstoneTime = time.Minute
	statesTTL     = 8 // s; renewals of states are bounded like those of locks with this TTL
	closeTimeout  = 3 * time.Second
	redialPause   = time.Second
)

// Store keeps locks in etcd. Its methods are safe for concurrent use. The zero Store is not
// usable: use New.
type Store struct {
	driver.Base

	client  *clientv3.Client
	prefix  string
	is      driver.Description
	calls   *storekit.Calls
	tombs   *session // the lease of the tombstones, which is not renewed
	states  *session // has no lease: calls renew those of states in its turn
	closing basic.Closing
	txnOps  atomic.Int32 // operations of a transaction that the server has not refused

	mu       sync.Mutex           // guards all below
	sessions map[int64]*session   // by their TTL in seconds
	leases   map[leaseKey]*record // of this store, until they are released or removed
	redialed time.Time            // see redialNow
}

var _ driver.Store = (*Store)(nil)

// New returns a store on the given client. It does no IO. The client stays the caller's, who
// closes it after the Store. The error names the bad argument or field of Options.
func New(client *clientv3.Client, o *Options) (*Store, error) {
	if client == nil {
		return nil, errors.New("etcdstore: the client is nil")
	}
	var opts Options
	if o != nil {
		opts = *o
	}
	opts.Prefix, opts.MinTTL = cmp.Or(opts.Prefix, defaultPrefix), cmp.Or(opts.MinTTL, defaultMinTTL)
	switch {
	case len(opts.Prefix) > maxPrefixLen:
		return nil, fmt.Errorf("etcdstore: Options.Prefix must have at most %d bytes, got %d", maxPrefixLen, len(opts.Prefix))
	case opts.MinTTL < time.Second || opts.MinTTL > time.Hour || opts.MinTTL%time.Second != 0:
		return nil, fmt.Errorf("etcdstore: Options.MinTTL must be 1 s to 1 h in whole seconds, got %v", opts.MinTTL)
	}
	s := &Store{
		client: client,
		prefix: opts.Prefix,
		calls:  storekit.NewCalls(),
		is: driver.Description{
			Waits: true, ReleasesAll: true, Inspects: true, Lists: true, SetsMetadata: true, Saves: true,
			Yields:    driver.ModesOf(driver.Exclusive),
			TTL:       driver.TTLLimits{Min: opts.MinTTL, Step: time.Second, Shared: true, Slack: slack},
			Addresses: storekit.Addresses(client.Endpoints()),
		},
		sessions: make(map[int64]*session),
		leases:   make(map[leaseKey]*record),
	}
	s.txnOps.Store(maxOps)
	s.tombs = newSession(s, int64(max(2*tombstoneTime, opts.MinTTL)/time.Second))
	s.states = newSession(s, statesTTL)
	return s, nil
}

// Describe implements [driver.Store]. The addresses are those that the client has when New is
// called.
func (s *Store) Describe() driver.Description { return s.is }

// call runs f, within the time of a request.
func (s *Store) call(ctx context.Context, verb string, f func(ctx context.Context) error) error {
	ctx, end, err := s.begin(ctx, maxRequest)
	if err != nil {
		return err
	}
	defer end()
	return s.failed(ctx, verb, f(ctx))
}

// begin is called by each method that asks the server; see storekit.Calls.Begin.
func (s *Store) begin(ctx context.Context, bound time.Duration) (context.Context, func(), error) {
	ctx, end, err := s.calls.Begin(ctx, bound)
	if err == nil {
		s.redialNow()
	}
	return ctx, end, err
}

// redialNow makes the client dial again, at most once a second, if it has no connection. After an outage of two minutes
// the client would wait for up to two minutes more.
func (s *Store) redialNow() {
	conn := s.client.ActiveConnection()
	if conn.GetState() != connectivity.TransientFailure {
		return
	}
	s.mu.Lock()
	due := time.Since(s.redialed) >= redialPause
	if due {
		s.redialed = time.Now()
	}
	s.mu.Unlock()
	if due {
		conn.ResetConnectBackoff()
	}
}

var errNoAnswer = errors.New("no answer in time")

// failed returns the error of a call. If an answer did not come in time, that is the reason of the
// network, or the cause of ctx if the client has a connection. Answers about the lock are returned as they are.
func (s *Store) failed(ctx context.Context, what string, err error) error {
	switch driver.VerdictOf(err) {
	case driver.Done, driver.Taken, driver.NotHeld:
		return err
	}
	late := ctx.Err() != nil || errors.Is(err, errNoAnswer)
	switch {
	case s.calls.Ctx.Err() != nil:
		return cmp.Or(context.Cause(ctx), driver.ErrStoreClosed)
	case errors.Is(err, rpctypes.ErrPermissionDenied):
		return fmt.Errorf("etcdstore: %s: %w: the user needs the permission readwrite for all keys with the prefix %q", what, err, s.prefix)
	case !late:
		return fmt.Errorf("etcdstore: %s: %w", what, err)
	}
	unsent := errors.Is(err, driver.ErrNotSent)
	if why := s.unreachable(); why != nil {
		err = fmt.Errorf("etcdstore: %s: %w", what, why)
	} else if err = context.Cause(ctx); err == nil {
		err = fmt.Errorf("etcdstore: %s: %w", what, errNoAnswer)
	}
	if unsent {
		return driver.NotSent.Error(err)
	}
	return err
}

// unreachable returns why the client has no connection to any member, or no room in it, or nil. The client
// of etcd waits for both, and its error lacks the reason. A request that does not wait for a connection gets the reason
// at once, and a stream begins at once if there is room for it, also if the server hangs.
func (s *Store) unreachable() error {
	ctx, cancel := context.WithTimeout(context.Background(), failurePause)
	defer cancel()
	conn := s.client.ActiveConnection()
	switch state := conn.GetState(); state {
	case connectivity.Ready:
		if _, err := conn.NewStream(ctx, new(grpc.StreamDesc), etcdserverpb.Maintenance_Status_FullMethodName); status.Code(err) == codes.DeadlineExceeded {
			return errNoStream
		}
		return nil
	case connectivity.TransientFailure:
	default:
		return fmt.Errorf("no connection to %s", strings.Join(storekit.Addresses(s.client.Endpoints()), ", "))
	}
	_, err := etcdserverpb.NewMaintenanceClient(conn).Status(ctx, new(etcdserverpb.StatusRequest), grpc.WaitForReady(false))
	if status.Code(err) != codes.Unavailable {
		return nil
	}
	return errors.New(status.Convert(err).Message())
}

var errNoStream = errors.New("the streams that the server allows on the connection (--max-concurrent-streams) are in use: give the store a client of its own")

// isRefusal reports whether the server has answered that it has not executed a request, and will not.
func isRefusal(err error) bool {
	e, ok := errors.AsType[rpctypes.EtcdError](err)
	if !ok {
		return false
	}
	switch e.Code() {
	case codes.InvalidArgument, codes.NotFound, codes.PermissionDenied, codes.Unauthenticated:
		return true
	}
	return errors.Is(err, rpctypes.ErrNoSpace)
}

// check refuses a request that the store cannot serve, before any IO.
func (s *Store) check(r driver.Request) error {
	if r.Mode != driver.Exclusive {
		return fmt.Errorf("etcdstore: %v: %w", r.Mode, errors.ErrUnsupported)
	}
	if err := s.is.TTL.Check(r.TTL); err != nil {
		return fmt.Errorf("etcdstore: %w", err)
	}
	return nil
}

// Close ends all calls that are under way, and revokes the leases of the store: everything that
// it still holds becomes free. It does not close the client. Close returns within 3 s. If the server
// has not answered by then, the leases end with their TTL, and Close returns an error. It also
// returns an error if a call is still under way, because the function that it got has not returned.
func (s *Store) Close() error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), closeTimeout, errSlowClose)
	defer cancel()
	return s.Shutdown(ctx)
}

var errSlowClose = fmt.Errorf("not finished within %v", closeTimeout)

// Shutdown is Close with the context of the caller. If ctx has ended, it does not wait for the
// server. Every call waits for the first one or the end of its own ctx, and returns the same result.
func (s *Store) Shutdown(ctx context.Context) error {
	return s.closing.Do(ctx, func() error { return s.shutdown(ctx) })
}

func (s *Store) shutdown(ctx context.Context) error {
	ended := s.calls.End()
	bounded, cancel := context.WithTimeout(ctx, closeTimeout/2) // leaves time to revoke the leases
	defer cancel()
	_ = basic.Await(bounded, ended)
	err := s.revoke(ctx)
	if late := basic.Await(ctx, ended); late != nil {
		err = errors.Join(err, fmt.Errorf("etcdstore: close: calls are still under way: %w", late))
	}
	return err
}

// revoke ends the etcd leases of all sessions.
func (s *Store) revoke(ctx context.Context) error {
	s.mu.Lock()
	sessions := slices.Collect(maps.Values(s.sessions))
	s.mu.Unlock()
	var errs []error
	for _, of := range sessions {
		id, _ := of.state()
		if id == clientv3.NoLease {
			continue
		}
		if _, err := s.client.Revoke(ctx, id); err != nil && !isLeaseNotFound(err) {
			errs = append(errs, fmt.Errorf("etcdstore: close: locks that are not released end with their TTL of %d s: %w", of.seconds, err))
		}
	}
	return errors.Join(errs...)
}
