// Package rediskit is shared by the stores on Redis: packages redisstore, redlock and redisson. It
// renews and releases their leases in batches, reports the events of their
// connections, and shuts them down.
package rediskit

import (
	"fmt"

	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/lock/internal/redisnode"
)

// Errors of calls that cannot be sent.
var (
	ErrNilContext = redisnode.ErrNilContext
	ErrZeroStore  = redisconn.ErrZeroStore
)

// UnexpectedReply returns the error of a reply that the script does not return. It shows only the
// shape of the reply, because the content may be an owner.
func UnexpectedReply(reply any) error {
	if items, ok := reply.([]any); ok {
		return fmt.Errorf("unexpected reply with %d elements", len(items))
	}
	return fmt.Errorf("unexpected reply type %T", reply)
}
