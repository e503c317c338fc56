// The replies of scripts, and errors.

package redlock

import (
	"fmt"
	"time"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/internal/rediskit"
)

// Replies are parsed strictly: a reply that differs from the header of its script is an error, never
// a success. Errors show only the shape of a reply, because its content may be an owner.

// answer is the first element of a reply of the acquire script.
type answer int64

const (
	givenUp answer = -1
	taken   answer = 0
	granted answer = 1
)

func parseAcquired(reply any) (a answer, left time.Duration, err error) {
	items, _ := reply.([]any)
	if len(items) == 0 {
		return 0, 0, rediskit.UnexpectedReply(reply)
	}
	code, ok := items[0].(int64)
	a = answer(code)
	switch {
	case ok && (a == granted || a == givenUp) && len(items) == 1:
		return a, 0, nil
	case ok && a == taken && len(items) == 2:
		left, err = parseLeft(items[1])
		return a, left, err
	}
	return 0, 0, rediskit.UnexpectedReply(reply)
}

// parseLeft returns the time until a lock expires: 0 if it has no expiry, otherwise at least 1 ms.
func parseLeft(item any) (time.Duration, error) {
	ms, ok := item.(int64)
	switch {
	case !ok || ms < -1:
		return 0, rediskit.UnexpectedReply(item)
	case ms == -1:
		return 0, nil
	}
	return max(time.Duration(ms), 1) * time.Millisecond, nil
}

var errGivenUp = fmt.Errorf("the owner was given up by an earlier release: %w", driver.ErrNotAcquired)

// failed returns an error that names the operation that failed.
func failed(verb string, err error) error { return basic.Failed("redlock", verb, err) }
