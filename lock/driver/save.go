// The interface Saver, for the state that a holder leaves to the next one.

package driver

import (
	"context"
	"time"
)

// MaxSavedLen is the maximum number of bytes that a holder saves beside a lock.
const MaxSavedLen = 64 << 10

// Saved is the state that a holder of a lock has saved.
type Saved struct {
	Data  []byte
	Token uint64 // of the lease of that holder; 0 if there is no state
}

// Saver is implemented by a Store that keeps a state beside a lock, in mode Exclusive. Its
// [Description] says so. The state survives the release of the lock, the end of a lease and a crash
// of its holder, for the time that Save says.
//
// A request with [Attrs].Stateful asks for the state: Acquire returns it in [Lease].Saved, as it was
// at the instant of the grant, or as it is now if the owner held the lock before. Wait may leave Saved
// nil; then the client calls Acquire for that owner, which costs a request.
type Saver interface {
	// Save replaces the state of the key of a lease. In the same step it looks whether the owner and
	// token of the lease hold the lock; if not, it changes nothing, however late it is executed, and
	// returns ErrNotHeld.
	//
	// The saves of a lease have rising numbers, from 1. If the state is of this lease and has the same
	// number or a higher one, then a later save, or this one, was executed before: Save changes nothing and
	// returns nil. The state ends ttl after the last Save that changed it, or some seconds later if the
	// server counts so. data has at most MaxSavedLen bytes, and Save must not keep it.
	Save(ctx context.Context, l Lease, number uint64, data []byte, ttl time.Duration) error

	// Forget removes the state of a key, which may be held. It is no error if there is none.
	Forget(ctx context.Context, key string) error
}
