// Election: campaigns, names, and who leads.

package lock

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
)

// Election elects one leader at a time among all candidates for a key, in all processes. The leader
// holds an exclusive lock whose metadata is its name.
//
// The handle that Campaign returns is the leadership, and ends with it. Its Token is the term;
// terms rise. Unlock resigns, and the next candidate leads at once. A leader leads as long as its
// process renews the lease, whether or not its work makes progress. An Election is not reentrant;
// see [Mutex].
//
// [Election.Run] suits most programs; [Do] leads for one term.
type Election struct {
	client *Client
	key    string
	name   string
}

var _ Locker = (*Election)(nil)

// Election returns the election with the given key (see [Client.Mutex]) for a candidate with the
// given name, which has 1 to MaxMetadataLen bytes and replaces [Terms].Metadata. Observers need no
// name.
func (c *Client) Election(key, name string) *Election {
	return &Election{client: c, key: key, name: name}
}

// ok reports whether a client has made the election.
func (e *Election) ok() bool { return e != nil && e.client.ok() }

// Campaign is [Mutex.Lock] for the leadership.
func (e *Election) Campaign(ctx context.Context) (*Held, error) { return e.acquire(ctx, true, nil) }

// Lock is Campaign.
func (e *Election) Lock(ctx context.Context) (*Held, error) { return e.acquire(ctx, true, nil) }

// TryLock is [Mutex.TryLock] for the leadership.
func (e *Election) TryLock(ctx context.Context) (*Held, error) { return e.acquire(ctx, false, nil) }

func checkCandidate(name string) error {
	if n := len(name); n < 1 || n > MaxMetadataLen {
		return fmt.Errorf("the name of a candidate must have 1 to %d bytes, got %d", MaxMetadataLen, n)
	}
	return nil
}

func (e *Election) acquire(ctx context.Context, wait bool, o *observation) (*Held, error) {
	if !e.ok() {
		return nil, errZeroLock
	}
	err := checkCandidate(e.name)
	if err == nil && e.client.terms.MinHold > 0 { // which would leave candidates without a leader after a resignation
		err = fmt.Errorf("an election cannot have a MinHold: %w", errors.ErrUnsupported)
	}
	if err != nil {
		return nil, failed("", e.key, err)
	}
	candidate := *e.client
	candidate.terms.Metadata = e.name
	candidate.patient = true
	return candidate.acquire(ctx, KindElection, driver.Request{Key: e.key}, wait, o)
}

// Proclaim changes the name of the leader until the leadership ends. The name has 1 to
// MaxMetadataLen bytes. The term stays.
//
// leadership is the handle of Campaign or Run. The error is that of the handle if it has ended;
// ErrNotHeld if the store no longer has the lease; and otherwise one of [Client.Inspect]. If there
// was no answer, the name may have changed.
func (e *Election) Proclaim(ctx context.Context, leadership *Held, name string) error {
	if !e.ok() {
		return errZeroLock
	}
	if err := e.proclaim(ctx, leadership, name); err != nil {
		return failed("proclaim", e.key, err)
	}
	return nil
}

func (e *Election) proclaim(ctx context.Context, leadership *Held, name string) error {
	if err := checkCandidate(name); err != nil {
		return err
	}
	if ctx == nil {
		return basic.ErrNilContext
	}
	if err := leadership.Err(); err != nil {
		return err
	}
	s, ok := leadership.handle.(*heldLease)
	if !ok || s.client.core != e.client.core || s.key() != e.key || s.entry.Lease().Mode != driver.Exclusive {
		return errNotTheLeader
	}
	return s.client.ask(ctx, func(ctx context.Context) error { return s.client.store.SetMetadata(ctx, s.entry.Lease(), name) })
}

var errNotTheLeader = errors.New("the handle is not that of a leader of this election and client")

// Leader describes the leader of an election. The zero Leader means that there is none.
type Leader struct {
	Name      string        // name of the candidate, or the last one that it proclaimed
	Term      uint64        // fencing token; 0 if the store has none
	ExpiresIn time.Duration // time until its lease expires unless it is renewed
	Elected   bool          // whether there is a leader
}

// Leader returns the current leader. Errors are those of [Client.Inspect].
func (e *Election) Leader(ctx context.Context) (Leader, error) {
	if !e.ok() {
		return Leader{}, errZeroLock
	}
	info, err := e.client.Inspect(ctx, e.key)
	if err != nil || len(info.Holders) == 0 {
		return Leader{}, err
	}
	h := info.Holders[0]
	return Leader{Name: h.Metadata, Term: h.Token, ExpiresIn: h.ExpiresIn, Elected: true}, nil
}

// Candidates returns the names of the first 100 waiting candidates, in order. The candidates of one
// client share one place, with the name of the first. A dead candidate is listed until its place
// expires. Errors are those of [Client.Inspect].
func (e *Election) Candidates(ctx context.Context) ([]string, error) {
	switch {
	case !e.ok():
		return nil, errZeroLock
	case ctx == nil:
		return nil, failed("list the candidates of", e.key, basic.ErrNilContext)
	case !e.client.can.Waits || e.client.can.Unordered.Has(driver.Exclusive):
		return nil, failed("list the candidates of", e.key, fmt.Errorf("the store has no queue: %w", errors.ErrUnsupported))
	}
	info, err := e.client.Inspect(ctx, e.key)
	if err != nil {
		return nil, err
	}
	var names []string
	for _, place := range info.Places {
		names = append(names, place.Metadata)
	}
	return names, nil
}

// Bounds of the interval of Observe.
const (
	minObserve  = 100 * time.Millisecond
	maxObserve  = 3 * time.Second
	observePart = 10 // fraction of the TTL
)

// Observe returns an iterator over the current leader and each change of it, until ctx ends. A
// change is another name, another term, or no leader. Observe asks the store every tenth of the
// TTL, at least 100 ms and at most 3 s apart, and may miss a leader that leads for less than that.
//
// A failed request yields an error and the zero Leader, and the loop continues. It ends after a
// permanent error, such as that of a closed client or of a store that cannot inspect.
func (e *Election) Observe(ctx context.Context) iter.Seq2[Leader, error] {
	return func(yield func(Leader, error) bool) {
		var last Leader
		seen := false
		for {
			now, err := e.Leader(ctx)
			if ctx != nil && ctx.Err() != nil {
				return
			}
			changed := !seen || now.Name != last.Name || now.Term != last.Term || now.Elected != last.Elected
			switch {
			case err != nil:
				if !yield(Leader{}, err) || ctx == nil || !e.ok() || driver.VerdictOf(err).IsFinal() {
					return
				}
			case changed:
				last, seen = now, true
				if !yield(now, nil) {
					return
				}
			}
			if basic.Sleep(ctx, min(max(e.client.terms.TTL/observePart, minObserve), maxObserve)) != nil {
				return
			}
		}
	}
}
