// List, the keys of held locks.

package lock

import (
	"context"
	"iter"
)

// List returns an iterator over the keys that begin with prefix and are locked by any client, in
// any way, or kept taken by Terms.MinHold. The loop asks the store for some keys at a time. A store
// on Redis looks at every key of its database.
//
// Each key comes once, in no order. A lock that is acquired or released during the loop, and a key
// that holds something else, may be shown or not. Other processes have chosen the keys: quote them
// when you print them.
//
// After an error, which comes with the key "", the loop ends. Errors are those of [Client.Inspect],
// and ErrUnavailable also if the store notices that a change of its servers hides locks.
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
	if !c.ok() {
		return nil, "", errZeroClient
	}
	if prefix != "" {
		if err := checkKey(prefix); err != nil {
			return nil, "", err
		}
	}
	err = c.ask(ctx, func(ctx context.Context) error {
		keys, next, err = c.store.List(ctx, prefix, cursor)
		return err
	})
	return keys, next, err
}
