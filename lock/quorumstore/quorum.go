// The Store: its members and what they are together, calls of all of them, and its Close.

package quorumstore

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/storekit"
	"github.com/leasewheel/leasewheel/renewal"
)

// New returns a store in which a majority of the given stores decides. They must be
// independent of each other; see the package documentation. The error names the first bad
// store by its index. New refuses a nil store, a store that is given twice, and stores
// that share an address; see [driver.Description.Addresses].
//
// Closing the Store closes all stores that can be closed.
func New(stores ...driver.Store) (*Store, error) {
	addresses, err := checkStores(stores)
	if err != nil {
		return nil, err
	}
	q := &Store{
		addresses:  addresses,
		members:    make([]*member, len(stores)),
		grants:     make(map[string]*grant),
		failed:     make(map[string]*grant),
		tombstones: make(map[string]time.Time),
	}
	q.pairs.known = make(map[[2]int]relation)
	q.pairs.undecided.Store(int64(len(stores) * (len(stores) - 1) / 2))
	q.ctx, q.cancel = context.WithCancel(context.Background())
	for i, s := range stores {
		q.members[i] = newMember(s)
	}
	return q, nil
}

// checkStores returns the addresses of all stores, or an error that names the first bad store.
func checkStores(stores []driver.Store) (all []string, err error) {
	if len(stores) == 0 {
		return nil, errors.New("quorumstore: no stores")
	}
	values, addresses := make(map[any]int), make(map[string]int)
	for i, s := range stores {
		if basic.IsNil(s) {
			return nil, fmt.Errorf("quorumstore: store %d is nil", i)
		}
		if reflect.ValueOf(s).Comparable() {
			if first, ok := values[s]; ok {
				return nil, fmt.Errorf("quorumstore: stores %d and %d are the same", first, i)
			}
			values[s] = i
		}
		for _, addr := range s.Describe().Addresses {
			same := canonicalAddress(addr)
			if first, ok := addresses[same]; ok && first != i {
				return nil, fmt.Errorf("quorumstore: stores %d and %d share the server at %s", first, i, addr)
			}
			addresses[same] = i
			all = append(all, addr)
		}
	}
	return all, nil
}

// Store is a store in which a majority of several stores decides. The zero Store
// is not usable: use New.
type Store struct {
	driver.Base

	addresses []string // see Describe
	members   []*member
	serial    atomic.Uint64   // number of attempts, for their owners
	ctx       context.Context // ends with Close
	cancel    context.CancelFunc
	running   sync.WaitGroup // calls of members
	closing   basic.Closing

	mu         sync.Mutex           // guards all below, and Add of running against Close
	grants     map[string]*grant    // by owner, until they are released or expired
	failed     map[string]*grant    // by owner: the last failed attempt that may have left copies, until it is released or expired
	tombstones map[string]time.Time // by owner: the end of its refusal
	added      int                  // entries added to the maps since the last sweep
	pairs      pairs                // of members; undecided is read without mu
	wrong      error                // the error of every Acquire, after two members proved to be one server
	closed     bool
}

const (
	minSweep          = 1024
	tombstoneTime     = time.Minute
	maxAttemptTimeout = 3 * time.Second
	closeTimeout      = 5 * time.Second
	copiesTimeout     = time.Second // of the releases of copies that belong to no lease, in Shutdown
	maxMemberCalls    = 10_000      // of Acquire and Release of one member at one time
	maxMemberRenews   = 256         // of Renew, each of which has a copy of its batch
)

var _ driver.Store = (*Store)(nil)

// member is one of the stores. It bounds the calls that are under way.
type member struct {
	store    driver.Store
	releaser *storekit.Releaser // of copies that belong to no lease
	calls    atomic.Int64       // under way
	renews   atomic.Int64
}

func newMember(s driver.Store) *member {
	return &member{store: s, releaser: storekit.NewReleaser(s, slog.New(slog.DiscardHandler))}
}

func (m *member) acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	defer m.calls.Add(-1)
	if m.calls.Add(1) > maxMemberCalls {
		return driver.Lease{}, errBusyMember
	}
	return m.store.Acquire(ctx, r)
}

func (m *member) renew(ctx context.Context, batch []driver.Lease, out []renewal.Outcome) error {
	defer m.renews.Add(-1)
	if m.renews.Add(1) > maxMemberRenews {
		return errBusyMember
	}
	return m.store.Renew(ctx, batch, out)
}

// answer is the outcome of a call of one member.
type answer[A any] struct {
	at    int // index of the member
	value A
	err   error
}

var (
	errBusyMember = driver.NotSent.Error(errors.New("too many calls of this store are under way"))
	errSilent     = errors.New("no answer in time")
	errSlowClose  = fmt.Errorf("quorumstore: close: not finished within %v", closeTimeout)
)

// callAll calls f for the given members at the same time, and returns the channel on which
// all answers arrive. The calls go on after ctx has ended, until they are answered, the
// timeout has passed, or the Store is closed. So f must not use memory that its caller
// may use again.
func callAll[A any](ctx context.Context, q *Store, timeout time.Duration, at []int, f func(ctx context.Context, i int) (A, error)) (<-chan answer[A], error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, driver.ErrStoreClosed
	}
	answers := make(chan answer[A], len(at))
	if len(at) == 0 { // otherwise no call would free the context below
		return answers, nil
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), timeout, errSilent)
	stop := context.AfterFunc(q.ctx, cancel)
	left := new(atomic.Int64)
	left.Store(int64(len(at)))
	for _, i := range at {
		q.running.Go(func() {
			a := answer[A]{at: i, err: storekit.ErrExited}
			defer func() {
				answers <- a
				if left.Add(-1) == 0 {
					stop()
					cancel()
				}
			}()
			a.value, a.err = f(ctx, i)
		})
	}
	return answers, nil
}

// next waits for an answer. The error is the cause of ctx if that ends first.
func next[A any](ctx context.Context, answers <-chan answer[A]) (a answer[A], err error) {
	select {
	case a = <-answers:
	case <-ctx.Done():
		err = context.Cause(ctx)
	}
	return a, err
}

// attemptTimeout bounds the answer of a member to an Acquire, so that the holder has most
// of its TTL left.
func attemptTimeout(ttl time.Duration) time.Duration { return min(ttl/5, maxAttemptTimeout) }

// need returns how many members must grant a request, so that the other members are too
// few to grant one more than the lock allows.
func (q *Store) need(r *driver.Request) int {
	limit := 1
	if r.Mode == driver.Permit {
		limit = max(1, min(r.Limit(), len(q.members))) // a higher limit needs all members, too
	}
	return len(q.members)*limit/(limit+1) + 1
}

// ReportEvents implements [driver.Store]. An event of a member may concern every lease.
func (q *Store) ReportEvents(report func(renewal.Event)) {
	for _, m := range q.members {
		m.store.ReportEvents(func(e renewal.Event) {
			e.Lane = renewal.AllLanes
			report(e)
		})
	}
}

// Describe implements [driver.Store].
//
// A TTL must be within the limits of all members. A lock lasts as long as its copy at the member
// that keeps it longest. If no TTL is within the limits of all members, Min is above Max, and every
// TTL is refused. The quorum can do what all members can, apart from Wait, List, Save, Watch and Import. Replicas has the
// sums of all members.
func (q *Store) Describe() driver.Description {
	all := q.members[0].store.Describe()
	all.Waits, all.TimesWaiters, all.Lists, all.Saves, all.Imports = false, false, false, false, false
	all.Yields, all.Unordered = 0, 0
	all.Addresses = q.addresses
	for _, m := range q.members[1:] {
		one := m.store.Describe()
		all.ReleasesAll = all.ReleasesAll && one.ReleasesAll
		all.Inspects = all.Inspects && one.Inspects
		all.SetsMetadata = all.SetsMetadata && one.SetsMetadata
		all.TTL = jointLimits(all.TTL, one.TTL)
		all.Keeps &= one.Keeps
		all.Replicas.Enough += one.Replicas.Enough
		all.Replicas.TooFew += one.Replicas.TooFew
		all.Replicas.Unanswered += one.Replicas.Unanswered
	}
	return all
}

// jointLimits returns limits that are at least as tight as both. Two different steps cannot be
// one: each rounds up by less than its length, so the longer one becomes slack.
func jointLimits(a, b driver.TTLLimits) driver.TTLLimits {
	joint := driver.TTLLimits{
		Min:    max(a.Min, b.Min),
		Max:    min(cmp.Or(a.Max, driver.MaxTTL), cmp.Or(b.Max, driver.MaxTTL)),
		Step:   a.Step,
		Shared: a.Shared || b.Shared,
		Slack:  max(a.Slack, b.Slack),
	}
	if a.Max == 0 && b.Max == 0 {
		joint.Max = 0
	}
	if a.Step != b.Step {
		joint.Step, joint.Slack = 0, max(a.Slack+a.Step, b.Slack+b.Step)
	}
	return joint
}

// Close is Shutdown that waits up to 5 s for the members.
func (q *Store) Close() error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), closeTimeout, errSlowClose)
	defer cancel()
	return q.Shutdown(ctx)
}

// Shutdown ends all calls that are under way and closes the members, which wait no longer than until ctx
// ends. Copies of locks that no call got are released before, for at most a second. Shutdown is idempotent: every call
// waits until all is closed or its ctx has ended, and returns the same result.
func (q *Store) Shutdown(ctx context.Context) error {
	return q.closing.Do(ctx, func() error { return q.closeAll(ctx) })
}

// closeAll has all members closed at the same time.
func (q *Store) closeAll(ctx context.Context) error {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.cancel()
	copies, stop := context.WithTimeout(ctx, copiesTimeout)
	defer stop()
	outcomes := make([]error, len(q.members))
	var closing sync.WaitGroup
	for i, m := range q.members {
		closing.Go(func() {
			_ = m.releaser.Close(copies, copies, nil) // a copy that is left expires
			outcomes[i] = m.store.Shutdown(ctx)
		})
	}
	closing.Wait()
	q.running.Wait()
	var errs memberErrors
	for i, err := range outcomes {
		errs.add(i, err)
	}
	if len(errs) > 0 {
		return fmt.Errorf("quorumstore: close: %w", errs)
	}
	return nil
}

// memberErrors are the errors of members, each with the index of its member.
type memberErrors []error

func (e *memberErrors) add(i int, err error) {
	if err != nil {
		*e = append(*e, fmt.Errorf("store %d: %w", i, err))
	}
}

func (e memberErrors) Error() string {
	texts := make([]string, len(e))
	for i, err := range e {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

// Is reports whether a member's error matches target. The errors of members that gave no
// answer make the store unavailable, and then the answer of another member that the owner
// is refused does not count. ErrNotSent and ErrNotExecuted are about one member only.
func (e memberErrors) Is(target error) bool {
	switch target {
	case driver.ErrNotSent, renewal.ErrNotSent, driver.ErrNotExecuted:
		return false
	case driver.ErrUnavailable:
		return slices.ContainsFunc(e, func(err error) bool {
			return !driver.VerdictOf(err).IsAnswer() && !errors.Is(err, driver.ErrLost)
		})
	case driver.ErrNotAcquired:
		if e.Is(driver.ErrUnavailable) {
			return false
		}
	}
	return slices.ContainsFunc(e, func(err error) bool { return errors.Is(err, target) })
}

// As finds the first error of a member that fits target.
func (e memberErrors) As(target any) bool {
	return slices.ContainsFunc(e, func(err error) bool { return errors.As(err, target) })
}

// tryOwner returns the owner by which the members know one attempt. Each attempt has its
// own, because the grants of a failed attempt are released while the next one is under
// way, and a late release must not end the next one.
func (q *Store) tryOwner(owner string) string {
	return owner + "." + strconv.FormatUint(q.serial.Add(1), 36)
}
