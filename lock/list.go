// This file is about List, the keys of held locks.

package lock

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/leasewheel/leasewheel/lock/driver"
)

// List returns an iterator over the keys of the locks of any kind that begin with prefix and are
// held, by this client or by others, or that [Terms].MinHold keeps taken. It is meant for
// operators and tools: it asks the store for some of its keys at a time, while the loop runs, and
// remembers the keys that it has shown. A store on Redis looks at every key of its database.
//
// The keys come in no order, and each of them once. The result is no snapshot: a lock that is
// acquired or released during the loop may be shown or not, and a key that holds something else
// may be shown too. Other processes have chosen the keys, so quote them when you print them.
//
// After an error, which comes with the key "", the loop ends. The error may be
// errors.ErrUnsupported if the store cannot list its locks, ErrBadKey for a prefix with which no
// key can begin, ErrClosed, the cause of ctx if that ended, or ErrUnavailable if the store gave
// no answer or can no longer find all locks, for example because a slot of a Redis Cluster got
// another master meanwhile. A store may not notice such a change; redisstore.Store.List names
// those of Redis. Each loop over the iterator starts from the beginning.
func (c *Client) List(ctx context.Context, prefix string) iter.Seq2[string, error] {
	return func(yield func(key string, err error) bool) {
		shown := make(map[string]struct{})
		for cursor, more := "", true; more; more = cursor != "" {
			keys, next, err := c.listPage(ctx, prefix, cursor)
			if err != nil {
				yield("", failed("list", prefix, err))
				return
			}
			cursor = next
			for _, key := range keys {
				if _, twice := shown[key]; twice {
					continue
				}
				shown[key] = struct{}{}
				if !yield(key, nil) {
					return
				}
			}
		}
	}
}

// listPage asks the store once.
func (c *Client) listPage(ctx context.Context, prefix, cursor string) (keys []string, next string, err error) {
	if c == nil || c.core == nil {
		return nil, "", errZeroClient
	}
	if prefix != "" {
		if err := checkKey(prefix); err != nil {
			return nil, "", err
		}
	}
	err = c.ask(ctx, func(ctx context.Context) error {
		lister, ok := c.store.(driver.Lister)
		if !ok {
			return fmt.Errorf("the store cannot list its locks: %w", errors.ErrUnsupported)
		}
		keys, next, err = lister.List(ctx, prefix, cursor)
		return err
	})
	return keys, next, err
}
