// Package rediskit is shared by the stores on Redis: packages redisstore, redlock and redisson. It
// renews and releases their leases in batches, makes their errors, reports the events of their
// connections, and shuts them down.
package rediskit

import (
	"fmt"

	"github.com/leasewheel/leasewheel/internal/basic"
	"github.com/leasewheel/leasewheel/lock/internal/redisconn"
	"github.com/leasewheel/leasewheel/lock/internal/redisnode"
)

// Errors of calls that cannot be sent.
var (
	ErrNilContext = redisnode.ErrNilContext
	ErrZeroStore  = redisconn.ErrZeroStore
)

// Failed returns an error that says which operation of a store failed for which key. Its text leaves
// out the prefix of package lock. err must not be nil.
func Failed(store, verb, key string, err error) error { return &failureError{store, verb, key, err} }

// failureError makes its text when it is shown, because an outage makes very many failures at a time.
type failureError struct {
	store, verb, key string
	err              error
}

func (f *failureError) Error() string {
	return f.store + ": " + f.verb + " " + basic.Quote(f.key) + ": " + basic.Unprefixed(f.err).Error()
}

func (f *failureError) Unwrap() error { return f.err }

// UnexpectedReply returns the error of a reply that the script does not return. It shows only the
// shape of the reply, because the content may be an owner.
func UnexpectedReply(reply any) error {
	if items, ok := reply.([]any); ok {
		return fmt.Errorf("unexpected reply with %d elements", len(items))
	}
	return fmt.Errorf("unexpected reply type %T", reply)
}
