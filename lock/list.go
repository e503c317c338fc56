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
		var wrong error
		if prefix != "" {
			wrong = checkKey(prefix)
		}
		shown := make(map[string]struct{})
		for cursor, more := "", true; more; more = cursor != "" {
			var keys []string
			err := c.about(ctx, "list", prefix, wrong, func(ctx context.Context) (err error) {
				keys, cursor, err = c.store.List(ctx, prefix, cursor)
				return err
			})
			if err != nil {
				yield("", err)
				return
			}
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
