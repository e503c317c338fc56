// Package fence helps the resource that a lock protects to refuse those who do not
// hold it any more.
//
// A lock is a lease, and its holder may be paused between looking at it and using the
// resource, for longer than the lease lasts. It cannot know; the resource can: each
// grant of a lock has a token above all that were granted before, the holder sends it
// along, and the resource refuses tokens below the highest that it has seen.
//
// The look at the token and the use must be one: a use that is paused after its look
// does the harm that the token was to prevent. So a database compares the token in
// the statement that writes, Redis in the script that does (package redisguard), and
// a [Guard] waits for uses with lower tokens to end before it lets a higher one begin.
//
// Stores without tokens, such as a quorum, cannot be used for this: their token is 0,
// which everything here refuses.
package fence

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
)

var (
	// ErrStale matches every refusal of a token.
	ErrStale = errors.New("fence: the token is stale")

	// ErrNoToken is returned for the token 0, which is none.
	ErrNoToken = errors.New("fence: there is no token")
)

// StaleError says that a resource has seen a higher token. It matches ErrStale.
type StaleError struct {
	Resource string
	Token    uint64
	Highest  uint64 // 0 if it is not known
}

// Error implements error.
func (e *StaleError) Error() string {
	if e.Highest == 0 {
		return fmt.Sprintf("fence: the token %d of %q is stale", e.Token, e.Resource)
	}
	return fmt.Sprintf("fence: the token %d of %q is stale, it has seen %d", e.Token, e.Resource, e.Highest)
}

// Is makes every StaleError match ErrStale.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// Guard lets in those who use a resource, by their tokens.
type Guard interface {
	// Enter returns when the resource may be used with the token: nobody uses it
	// with a lower one, and nobody will from now on. The same token may be in use
	// several times at once. Leave, which is not nil, must be called when the use
	// has ended, once. The error is a *StaleError if a higher token was seen before
	// or while it waited, ErrNoToken, or ctx's cause.
	Enter(ctx context.Context, resource string, token uint64) (leave func(), err error)
}

// Written judges the result of a statement that writes where the token is not below
// the one that is stored, such as
//
//	UPDATE stock SET n = ?, fence = ? WHERE id = ? AND fence <= ?
//
// whose last argument, and the new value of fence, are the token. It returns err if
// there is one, ErrNoToken for the token 0, and a *StaleError if no row was written:
// then a higher token was there, or no row at all. The driver must count the rows
// that were found, not only those that were changed: for MySQL that is
// clientFoundRows=true, or else to write the same values twice would look stale.
func Written(resource string, token uint64, r sql.Result, err error) error {
	switch {
	case err != nil:
		return err
	case token == 0:
		return ErrNoToken
	case r == nil:
		return errors.New("fence: the result of the statement is nil")
	}
	n, err := r.RowsAffected()
	if err != nil {
		return fmt.Errorf("fence: rows written: %w", err)
	}
	if n == 0 {
		return &StaleError{Resource: resource, Token: token}
	}
	return nil
}
