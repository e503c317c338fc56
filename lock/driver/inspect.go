// The interfaces Inspector and MetadataSetter, and the type Info.

package driver

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
)

// Inspector is implemented by a Store that can show its locks. Both methods return
// ErrWrongType if the key holds something that is not a lock.
type Inspector interface {
	// Inspect returns what the store knows about a lock at one instant. A key that
	// nobody holds is not an error.
	Inspect(ctx context.Context, key string) (Info, error)

	// ForceRelease takes a lock away from all its holders and hands it over to the
	// waiters. A lock that is kept after its release becomes free. The holders learn of
	// it at their next renewal at the latest. Until then two owners may believe that they
	// hold the lock, and only the fencing token tells them apart. ForceRelease returns
	// ErrNotHeld if nobody holds the lock, or if its holders have changed since
	// ForceRelease looked at them.
	ForceRelease(ctx context.Context, key string) error
}

// Info is what a store knows about a lock at one instant. It does not show owners,
// because they are secrets.
type Info struct {
	Holders []Holder // in the order of their grants, at most the first 16; empty if the lock is free
	Held    int      // number of holders, including those beyond the first 16
	Waiting int      // owners in the queue, including dead ones whose places have not expired
	Token   uint64   // the last one granted, 0 if the store has forgotten it

	// FreeIn is above 0 if the lock is taken by nobody, because it was released before its
	// MinHold had passed: the time until then. The lock has no holders meanwhile.
	FreeIn time.Duration

	// Places are the first 100 of the waiters, in the order of the queue. A Waiter must show
	// them in all modes. Any other store shows none.
	Places []Place
}

// Place is the place of one waiter in the queue of a lock. A client has one place for all
// its waiters in mode Exclusive.
type Place struct {
	Mode     Mode
	Metadata string // as given by the waiter
	Client   string // the ClientName of the waiter
}

// Holder is one lease of a lock.
type Holder struct {
	Mode      Mode
	Token     uint64
	ExpiresIn time.Duration // until the lease ends, unless it or its session is renewed; see HeldError
	Metadata  string        // as given by the holder, or by the last SetMetadata
	Client    string        // the ClientName of the owner
	Members   int           // in mode Members: how many the lease holds
	Permits   int           // in mode Permit: how many the lease holds
}

// ClientName returns the name by which Inspect shows the client of an owner: the first 16
// hexadecimal digits of the SHA-256 of the owner up to its last colon, or of the whole owner if
// it has none. All owners of a client have the same name. The name is not a secret, and does
// not show the owner. A lease that was exported keeps the name of the client that acquired it.
func ClientName(owner string) string {
	if colon := strings.LastIndexByte(owner, ':'); colon >= 0 {
		owner = owner[:colon]
	}
	sum := sha256.Sum256([]byte(owner))
	return hex.EncodeToString(sum[:8])
}

// MetadataSetter is implemented by a Store whose holders can change their metadata.
// Package lock uses it for the leaders of elections.
type MetadataSetter interface {
	// SetMetadata changes the metadata that Inspect shows for a lease, until the lease ends.
	// The next holder is shown with its own. The lease keeps its owner, token and
	// expiry, and l.Attrs does not change either.
	//
	// SetMetadata returns ErrNotHeld, and changes nothing, if the owner and token of the
	// lease do not hold the lock. It returns errors.ErrUnsupported, before any IO, for a
	// mode in which the store cannot change metadata; it must be able to in mode
	// Exclusive. The metadata has at most MaxMetadataLen bytes.
	SetMetadata(ctx context.Context, l Lease, metadata string) error
}
