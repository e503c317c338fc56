// The hooks that users set.

package lock

import (
	"context"
	"time"

	"github.com/leasewheel/leasewheel/renewal"
)

// Hooks are functions that a client calls about its locks, for metrics and traces. Each may be nil.
// For a lock that was acquired, either Released or Lost is called once.
//
//	Acquiring  before Lock or TryLock asks the store
//	Waiting    once, when a Lock finds the lock taken, or waits behind other calls of its client
//	Acquired   before Lock or TryLock returns a handle
//	Refused    before Lock or TryLock returns an error
//	Releasing  before Unlock ends the lock
//	Released   after Unlock, Downgrade, Detach, or Close of the client
//	Lost       when the lease is lost
//
// Hooks are called concurrently, with no mutex held, and may use the client. A hook runs on the
// goroutine of the call and delays it. Waiting must return soon and must not call [Client.Close]:
// it also delays the other calls of its key in this client. After Detach, Close, or Unlock of one
// lock of a Multi, Released runs on a goroutine of its own, and so does Lost unless an Unlock or
// Downgrade notices the loss. Its ctx then has the values of that of the Lock and does not end.
//
// A panic of a hook reaches the caller, or ends the process if the goroutine is the hook's own. If
// Waiting panics, the call leaves its queue. If Acquired or Releasing panics, the lock is released
// without a call of Released, after Acquired whatever its MinHold.
//
//   - Entering a Reentrant or Batch again calls no hook, and Released comes with the last Unlock.
//   - A Multi is one lock of kind KindMulti, reported to the Hooks of the client of its first lock
//     that is one of this package. Its members report nothing.
//   - An Election is one lock of kind KindElection for each term.
//   - [Client.Resume] calls Acquired or Refused.
//   - [RWMutex.Downgrade] calls Released or Lost for the writer, and Acquired for the reader.
//   - Misuse that is refused before any IO calls no hook.
type Hooks struct {
	// Acquiring and Releasing return the context with which the call asks the store and calls later
	// hooks: ctx, one derived from it, or nil, which means ctx. Acquired or Refused is called after
	// Acquiring, and Released or Lost after Releasing, unless the call panics. Downgrade calls
	// neither.
	Acquiring func(ctx context.Context, i HookInfo) context.Context
	Releasing func(ctx context.Context, i HookInfo) context.Context

	Waiting  func(ctx context.Context, i HookInfo)
	Acquired func(ctx context.Context, i HookInfo)
	Refused  func(ctx context.Context, i HookInfo)
	Released func(ctx context.Context, i HookInfo)

	// Lost is also called when a lease reaches the limit of its Terms: renewal.ReasonLimitReached.
	Lost func(ctx context.Context, i HookInfo)

	// BatchDone is called after each request for renewals, as renewal.Hooks describes.
	BatchDone func(i renewal.BatchInfo)
}

// HookInfo describes a lock to a hook.
type HookInfo struct {
	Kind    Kind
	Key     string  // of a Batch the group, of a Multi all keys
	Outcome Outcome // "" for Acquiring, Waiting and Releasing

	Token  uint64        // the fencing token, once acquired; 0 for a Multi
	Waited time.Duration // from the begin of Lock or TryLock to its end, or to Waiting
	Held   time.Duration // from the end of Lock or TryLock to the end of the lock

	// Err is the error that Lock or TryLock returns to Refused, the loss for Lost, which wraps a
	// *renewal.LostError, and for Released ErrClosed, or the error of an Unlock that was not
	// confirmed.
	Err error
}

// Kind is a kind of lock.
type Kind string

// The kinds of locks.
const (
	KindMutex     Kind = "mutex"
	KindReentrant Kind = "reentrant"
	KindRead      Kind = "read"  // of a RWMutex
	KindWrite     Kind = "write" // of a RWMutex
	KindSemaphore Kind = "semaphore"
	KindBatch     Kind = "batch"
	KindMulti     Kind = "multi"
	KindElection  Kind = "election"
)

// Outcome is how a call or a lock has ended.
type Outcome string

// The outcomes. The first is that of Acquired, and the next five are those of Refused. OutcomeLost
// is that of Lost, and the others are those of Released.
const (
	OutcomeAcquired    Outcome = "acquired"
	OutcomeHeldByOther Outcome = "held_by_other" // TryLock found the lock taken
	OutcomeWaitLimit   Outcome = "wait_limit"    // the time of WaitAtMost ended, and the lock was taken
	OutcomeCanceled    Outcome = "canceled"      // ctx ended, and the lock was taken or the store not asked
	OutcomeUnavailable Outcome = "unavailable"
	OutcomeError       Outcome = "error" // any other error, such as ErrTooMany
	OutcomeUnlocked    Outcome = "unlocked"
	OutcomeClosed      Outcome = "closed"
	OutcomeLost        Outcome = "lost"
	OutcomeDetached    Outcome = "detached"
)
