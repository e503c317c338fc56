// Package fence lets the resource that a lock protects reject stale holders.
//
// A lock is a lease. Its holder may be paused after it has checked the lease, for longer
// than the lease lasts, and cannot notice that. The resource can, with fencing tokens. Each
// grant of a lock has a token greater than all earlier tokens. The holder sends the token
// with each request, and the resource rejects tokens lower than the highest that it has seen.
//
// The check and the use must be one atomic step. If a request is paused between them, it
// does the harm that the token was to prevent. A SQL database therefore compares the token
// in the transaction that writes ([Tx]) or in the statement that writes ([CheckResult]), and
// Redis in the script that writes (package redisguard). A [Guard] lets a request with a
// higher token begin only after all requests with lower tokens have ended.
//
// Tokens are uint64 everywhere. The tokens of the stores in this module are below 2^53, so
// that a BIGINT column, an int64 and a float64 hold them exactly. Package database/sql
// accepts a uint64 below 2^63 as an argument.
//
// Stores without tokens, such as a quorum, do not support fencing: their token is 0,
// which this package rejects.
//
// The section [fencing tokens] of the guide explains when tokens are needed. The program
// [migration] uses them.
//
// [fencing tokens]: https://github.com/leasewheel/leasewheel/blob/main/docs/GUIDE.md#fencing-tokens
// [migration]: https://github.com/leasewheel/leasewheel/blob/main/examples/migration/main.go
package fence

import (
	"context"
	"errors"
	"fmt"
)

var (
	// ErrStale matches every rejection of a stale token.
	ErrStale = errors.New("fence: token is stale")

	// ErrNoToken is the error for the token 0.
	ErrNoToken = errors.New("fence: no token")
)

// StaleError reports that the resource has seen a higher token. It matches ErrStale.
type StaleError struct {
	Resource string
	Token    uint64
	Highest  uint64 // 0 if unknown
}

// Error implements error.
func (e *StaleError) Error() string {
	if e.Highest == 0 {
		return fmt.Sprintf("fence: token %d of %q is stale", e.Token, e.Resource)
	}
	return fmt.Sprintf("fence: token %d of %q is stale: highest token is %d", e.Token, e.Resource, e.Highest)
}

// Is makes every StaleError match ErrStale.
func (e *StaleError) Is(target error) bool { return target == ErrStale }

// Guard admits requests to resources by their tokens.
type Guard interface {
	// Enter blocks until the resource may be used with the token: no request with a lower
	// token is active, and none will be admitted. Several requests with the same token
	// may be active. The caller must call leave, which is not nil, once when its request
	// has ended. The error is a *StaleError if a higher token was seen before or during
	// the wait, ErrNoToken, or the cause of ctx.
	Enter(ctx context.Context, resource string, token uint64) (leave func(), err error)
}
