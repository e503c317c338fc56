// Errors of calls and of servers.

package redisnode

import (
	"errors"
	"os"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// ErrClosed is the error of the calls that run when [Calls.Cancel] is called, and of all later calls.
var ErrClosed = driver.ErrStoreClosed

// ErrNilContext is the error of a call with a nil ctx.
var ErrNilContext = errors.New("the context is nil")

// lateError is a timeout that the caller did not set. For example, package net reports a
// slow dial as context.DeadlineExceeded.
type lateError struct{ error }

// Unwrap makes it match os.ErrDeadlineExceeded.
func (lateError) Unwrap() error { return os.ErrDeadlineExceeded }

// IsAnswered reports whether the server has replied to a command. err is the error of
// go-redis for it, and may be an error reply.
func IsAnswered(err error) bool {
	return err == nil || errors.As(err, new(redis.Error))
}

// HasCode reports whether an error reply has a code. Servers up to Redis 6 put the position in the script,
// and for some codes a dash, before the code.
func HasCode(reply redis.Error, code string) bool {
	text := reply.Error()
	return strings.HasPrefix(text, code+" ") || strings.Contains(text, ": "+code+" ") || strings.Contains(text, ": -"+code+" ")
}
