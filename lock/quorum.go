package lock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"reflect"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/leasewheel/leasewheel/renewal"
)

// Quorum returns a store that is several independent ones: a majority of them decides
// who holds a lock. It goes on while a minority is down, slow or cut off. The
// algorithm is Redlock, with a count within the validity time for renewals too.
//
// An Acquire asks all stores at the same time. It has the lock if more than half
// of them granted it and less than its TTL has passed since before the first was
// asked, 1 % and 2 ms taken off for clocks that differ. Each store has a fifth of
// the TTL to answer, at most 3 s, so that one that hangs does not eat up the rest:
// the TTL must be five times as long as the slowest answer that is to count. Whoever
// gets no majority gives back at once what was granted, late grants too, in the
// background and in bounded number; a client tries again after its Backoff, whose
// random times end the tie of several who got a minority each.
//
// A renewal goes to all stores that hold the lease, each of which confirms or
// refuses it for itself: a majority that confirms renews it, a majority that
// cannot be had any more loses it, anything else is no answer. Neither waits for
// the rest. A renewal takes nothing: a store that has lost its copy of a lock, or
// did not answer when it was acquired, stays without it until the next Acquire.
//
// Permits need more than half. With a limit of l, of n stores n·l/(l+1)+1 must
// grant one, for else l+1 holders could each have enough: of 3 stores all, for any
// limit above 1.
//
// # What a quorum does not give
//
// There is no fencing token: Held.Token is 0. Each store counts its own tokens, two
// majorities have as little as one store in common, and no number made of those of
// one majority is above all numbers made of those of an earlier one.
//
// A store that forgets its locks, in a restart or by eviction, can make a second
// majority of those that grant the same lock. So a store without persistence must
// be kept away, after a restart, for the longest TTL in use: delayed restart.
//
// All clients must name the same stores. To change them, add or take away one, and
// the next when no process is without that step, those that died within the longest
// TTL among them: sets that differ by one store exclude each other. Sets that differ
// by two may not, and to replace a store at once is to differ by two.
//
// The stores must fail independently, or the majority is worth no more than one
// server: a master and its replica are one store. What the same server is behind
// is refused as far as it can be seen: a store that is given twice, and stores that
// share an address; see [Addresser]. Even numbers are allowed and gain nothing over
// one store less: 4 bear one failure, as 3 do.
//
// The error names the store that is wrong, by its index. Closing the quorum closes
// all stores that are an io.Closer.
func Quorum(stores ...Store) (Store, error) {
	if err := checkStores(stores); err != nil {
		return nil, err
	}
	q := &quorum{
		members: make([]*member, len(stores)),
		grants:  make(map[string]*grant),
		failed:  make(map[string]*grant),
		tombs:   make(map[string]time.Time),
		sweep:   minQuorumSweep,
	}
	q.ctx, q.cancel = context.WithCancel(context.Background())
	for i, s := range stores {
		q.members[i] = newMember(s)
	}
	return q, nil
}

// Addresser may be implemented by a Store that knows which servers it asks. Quorum
// refuses stores that have one in common.
type Addresser interface {
	// Addresses returns the addresses of the servers, as they were given; none if
	// they are not known.
	Addresses() []string
}

// checkStores names what is wrong with the stores of a quorum.
func checkStores(stores []Store) error {
	if len(stores) == 0 {
		return errors.New("lock: Quorum has no stores")
	}
	values, addresses := make(map[any]int), make(map[string]int)
	for i, s := range stores {
		if isNil(s) {
			return fmt.Errorf("lock: store %d of Quorum is nil", i)
		}
		if reflect.ValueOf(s).Comparable() {
			if first, ok := values[s]; ok {
				return fmt.Errorf("lock: store %d of Quorum is store %d again", i, first)
			}
			values[s] = i
		}
		known, ok := s.(Addresser)
		if !ok {
			continue
		}
		for _, addr := range known.Addresses() {
			if first, ok := addresses[addr]; ok && first != i {
				return fmt.Errorf("lock: store %d of Quorum asks the server at %s, as store %d does", i, addr, first)
			}
			addresses[addr] = i
		}
	}
	return nil
}

// quorum is what Quorum returns.
type quorum struct {
	members []*member
	serial  atomic.Uint64   // of tries
	ctx     context.Context // ends with Close
	cancel  context.CancelFunc
	running sync.WaitGroup // calls of members

	mu     sync.Mutex           // guards all below, and Add of running against Close
	grants map[string]*grant    // by the owner they were granted to, until they are released or over
	failed map[string]*grant    // by their owners, until they are released or over: the last that may have left something
	tombs  map[string]time.Time // owner → how long it is refused
	sweep  int                  // size of the maps at which they are swept
	closed bool
}

const (
	minQuorumSweep  = 1024
	quorumTombstone = time.Minute
	quorumPatience  = 3 * time.Second
	maxMemberCalls  = 10_000 // of Acquire and Release of one member at one time
	maxMemberRenews = 256    // of Renew, each of which has a copy of its batch
)

var _ Store = (*quorum)(nil)

// member is one of the stores, asked by a bounded number of calls at one time.
type member struct {
	store   Store
	cleaner cleaner      // of what it granted for nobody
	calls   atomic.Int64 // under way
	renews  atomic.Int64
}

func newMember(s Store) *member {
	m := &member{store: s}
	m.cleaner.init(s, slog.New(slog.DiscardHandler))
	return m
}

func (m *member) acquire(ctx context.Context, r Request) (Lease, error) {
	defer m.calls.Add(-1)
	if m.calls.Add(1) > maxMemberCalls {
		return Lease{}, errBusyMember
	}
	return m.store.Acquire(ctx, r)
}

func (m *member) renew(ctx context.Context, batch []Lease, out []renewal.Outcome) error {
	defer m.renews.Add(-1)
	if m.renews.Add(1) > maxMemberRenews {
		return errBusyMember
	}
	return m.store.Renew(ctx, batch, out)
}

func (m *member) release(ctx context.Context, l Lease) error {
	defer m.calls.Add(-1)
	if m.calls.Add(1) > maxMemberCalls {
		return errBusyMember
	}
	return m.store.Release(ctx, l)
}

// answer is that of one member.
type answer[A any] struct {
	at    int // its index
	value A
	err   error
}

var (
	errBusyMember = errors.New("too many calls of it are under way")
	errSilent     = errors.New("no answer in time")
)

// ask calls f for the members at the same time, and returns the channel on which
// all answers come. The calls go on after the end of ctx, until they are answered, the
// bound has passed, or the quorum is closed; so f must use nothing that its caller may
// use again.
func ask[A any](ctx context.Context, q *quorum, bound time.Duration, at []int, f func(ctx context.Context, i int) (A, error)) (<-chan answer[A], error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return nil, ErrClosed
	}
	answers := make(chan answer[A], len(at))
	if len(at) == 0 { // or else nobody would free what is made below
		return answers, nil
	}
	ctx, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), bound, errSilent)
	stop := context.AfterFunc(q.ctx, cancel)
	left := new(atomic.Int64)
	left.Store(int64(len(at)))
	for _, i := range at {
		q.running.Go(func() {
			a := answer[A]{at: i, err: errExited}
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

// patience bounds the answer of a member to an Acquire: who has the lock is to have
// some of its TTL left.
func patience(ttl time.Duration) time.Duration { return min(ttl/5, quorumPatience) }

// need returns how many members must grant a request: so many that with what is
// left no other could get as many that the request excludes.
func (q *quorum) need(r *Request) int {
	limit := 1
	if r.Mode == Permit {
		limit = max(1, min(r.Limit(), len(q.members))) // beyond, it is all of them
	}
	return len(q.members)*limit/(limit+1) + 1
}

// Addresses implements [Addresser].
func (q *quorum) Addresses() []string {
	var all []string
	for _, m := range q.members {
		if known, ok := m.store.(Addresser); ok {
			all = append(all, known.Addresses()...)
		}
	}
	return all
}

// Close ends what is under way and closes the members. A second one does nothing.
func (q *quorum) Close() error {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return nil
	}
	q.closed = true
	q.mu.Unlock()
	q.cancel()
	var errs memberErrors
	for i, m := range q.members {
		_, _ = m.cleaner.close(context.Background()) // its releases end with its context
		if closer, ok := m.store.(io.Closer); ok {
			errs.add(i, closer.Close())
		}
	}
	q.running.Wait()
	if len(errs) > 0 {
		return fmt.Errorf("lock: quorum: close: %w", errs)
	}
	return nil
}

// memberErrors are those of members, each with its index.
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

// Unwrap returns them all, for errors.Is and errors.As.
func (e memberErrors) Unwrap() []error { return e }

// tryOwner returns the owner by which the members know one try. It is never used
// again: what was granted to a try that failed is released while the next one is
// under way, and a release that is executed late must not meet that.
func (q *quorum) tryOwner(owner string) string {
	return owner + "." + strconv.FormatUint(q.serial.Add(1), 36)
}
