// Info, what a store shows of a lock.

package driver

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"
)

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

	// Places are the first 100 of the waiters, in the order of the queue. A store that waits must
	// show them in all modes. Any other store shows none.
	Places []Place
}

// Place is the place of one waiter in the queue of a lock. A client has one place for all
// its waiters in mode Exclusive.
type Place struct {
	Mode     Mode
	Metadata string // as given by the waiter
	Client   string // the ClientName of the waiter

	// Waited is the time since the place was taken, by the clock of the server, or 0 if it is not known.
	Waited time.Duration
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
