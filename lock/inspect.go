package lock

import (
	"context"
	"time"
)

// Inspector is what a Store also is that can show its locks. A wrapper of stores
// answers errors.ErrUnsupported if what it wraps cannot.
type Inspector interface {
	// Inspect shows what the store knows of a lock at one instant. A key that
	// nobody holds is no error.
	Inspect(ctx context.Context, key string) (Info, error)

	// ForceRelease takes a lock away from all its holders, whoever they are, and
	// passes it on to those that wait. They are told at their next renewal at the
	// latest: until then two may believe that they hold the lock, and only the
	// fencing token tells them apart. It returns ErrNotHeld if nobody holds the
	// lock, or others do by now than those that it had seen.
	ForceRelease(ctx context.Context, key string) error
}

// Info is what a store knows of a lock at one instant. Owners are not shown: they
// are secrets.
type Info struct {
	Holders []Holder // in the order of their grants, the first 16 at most; empty if the lock is free
	Held    int      // how many hold it, those beyond the first 16 included
	Waiting int      // owners in the queue, those included that have died in it
	Token   uint64   // the last one granted, 0 if it is forgotten
}

// Holder is one lease of a lock.
type Holder struct {
	Mode      Mode
	Token     uint64
	ExpiresIn time.Duration // until the lease ends unless it is renewed
	Metadata  string        // that its holder gave
	Members   int           // of a lease in mode Members: how many it holds
}
