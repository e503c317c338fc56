// Lock: an elector of client-go on an election of a lock.Client.

package k8slock

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/leasewheel/leasewheel/lock"
)

// Lock is the resourcelock.Interface of one candidate. One elector at a time uses it; that elector
// may run several times. Held and Context are safe for concurrent use.
type Lock struct {
	client   *lock.Client
	key      string
	identity string

	mu       sync.Mutex                            // guards the fields below
	held     *lock.Held                            // the latest leadership, nil before the first
	record   resourcelock.LeaderElectionRecord     // what the elector has written into it last
	leading  bool                                  // the elector believes that it leads
	doubtful bool                                  // its latest renewal has failed
	contexts map[*context.CancelCauseFunc]struct{} // of Context
}

var _ resourcelock.Interface = (*Lock)(nil)

// New returns the Lock of a candidate with the given identity, such as the name of its pod. All
// candidates of an election have the same key; see [lock.Client.Mutex] for valid keys. New does no
// IO. The client's TTL does not count: the elector sets it.
func New(client *lock.Client, key, identity string) *Lock {
	return &Lock{client: client, key: key, identity: identity}
}

// stopped is what client-go records when an elector has stopped leading.
const stopped = "stopped leading"

// Get returns the record of the leader. It does no IO while this candidate leads. The error is that
// of the API server for a resource that does not exist if nobody leads.
func (l *Lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	l.mu.Lock()
	held, record, leading := l.held, l.record, l.leading
	l.mu.Unlock()
	switch {
	case held.Valid():
		return encode(record)
	case leading: // and lost: the elector must not find the lock free
		return nil, nil, l.failed(held.Err())
	}
	leader, err := l.client.Election(l.key, l.identity).Leader(ctx)
	switch {
	case err != nil:
		return nil, nil, l.failed(err)
	case !leader.Elected:
		return nil, nil, apierrors.NewNotFound(schema.GroupResource{Resource: "locks"}, l.key)
	}
	name := cmp.Or(leader.Name, "unknown") // the empty name would mean that nobody leads
	if name == l.identity {
		// Another process has this identity, such as one before a restart. The elector would
		// believe that it leads.
		name = fmt.Sprintf("%s in term %d", name, leader.Term)
	}
	return encode(resourcelock.LeaderElectionRecord{
		HolderIdentity:       name,
		LeaseDurationSeconds: int(math.Ceil(leader.ExpiresIn.Seconds())),
		RenewTime:            metav1.Now(), // so that the elector sees a change, as of a live leader
	})
}

func encode(r resourcelock.LeaderElectionRecord) (*resourcelock.LeaderElectionRecord, []byte, error) {
	raw, err := json.Marshal(r)
	return &r, raw, err
}

// Create is Update.
func (l *Lock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return l.Update(ctx, r)
}

// Update leads, renews the leadership or, for a record of another identity, resigns. The errors are
// those of [lock.Election.TryLock], [lock.Held.Renew] and [lock.Held.Unlock].
func (l *Lock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	l.mu.Lock()
	held, leading := l.held, l.leading
	l.mu.Unlock()
	if r.HolderIdentity != l.identity {
		return l.resign(ctx)
	}
	ttl := time.Duration(r.LeaseDurationSeconds) * time.Second
	var err error
	switch {
	case ttl <= 0: // Terms would inherit that of the client
		return l.failed(errors.New("the LeaseDuration is below a second"))
	case held.Valid():
		err = held.Renew(ctx, ttl)
	case leading:
		err = held.Err()
	default:
		terms := lock.Terms{TTL: ttl, Fixed: true, MaxHold: lock.NoMaxHold, MinHold: lock.NoMinHold}
		held, err = l.client.With(terms).Election(l.key, l.identity).TryLock(ctx)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.doubtful = !errors.Is(ctx.Err(), context.Canceled) // a cancelled renewal is part of a planned stop
		return l.failed(err)
	}
	if held != l.held {
		// Nobody cancels ended: it ends with the lease at the latest.
		ended, _ := held.Context(context.Background())
		context.AfterFunc(ended, func() { l.tell(held) })
	}
	l.held, l.record, l.leading, l.doubtful = held, r, true, false
	return nil
}

// resign releases the leadership, unless the elector stops because it could not renew: then its work
// goes on until it is notified, and the lease shall protect it until it expires.
func (l *Lock) resign(ctx context.Context) error {
	l.mu.Lock()
	held, doubtful := l.held, l.doubtful
	l.leading = false
	l.mu.Unlock()
	if doubtful {
		return l.failed(errors.New("a leadership that was not renewed is left to expire"))
	}
	return held.Unlock(ctx)
}

// tell ends the contexts of Context if a leadership has ended and its elector does not know it.
func (l *Lock) tell(held *lock.Held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.held != held || !l.leading {
		return
	}
	for cancel := range l.contexts {
		(*cancel)(held.Err())
	}
}

// Context returns a copy of parent that also ends when a leadership of this candidate is lost, or
// ended by Close of the client. Its context.Cause is then the error of [lock.Held.Err]. Run the
// elector, or the manager, with it. The CancelFunc must be called.
func (l *Lock) Context(parent context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(parent)
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.contexts == nil {
		l.contexts = map[*context.CancelCauseFunc]struct{}{}
	}
	l.contexts[&cancel] = struct{}{}
	return ctx, func() {
		l.mu.Lock()
		delete(l.contexts, &cancel)
		l.mu.Unlock()
		cancel(nil)
	}
}

// Held returns the handle of the latest leadership of this candidate, or nil if it has never led. Its
// Token is the term. The methods of a nil handle are those of a lock that is not held. The lease is
// renewed by the elector alone.
func (l *Lock) Held() *lock.Held {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// RecordEvent takes notice of the end of a leadership. It records nothing.
func (l *Lock) RecordEvent(event string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if event == stopped {
		l.leading = false
	}
}

// Identity returns the identity of the candidate.
func (l *Lock) Identity() string { return l.identity }

// Describe returns the name of the lock for logs of the elector.
func (l *Lock) Describe() string { return "leasewheel lock " + l.key }

func (l *Lock) failed(err error) error { return fmt.Errorf("k8slock: %w", err) }
