// This file is about the inspection of many locks at a time.

package waitgraph

import (
	"context"
	"errors"
	"iter"
	"sync"

	"github.com/leasewheel/leasewheel/lock"
)

// inspectors is how many locks are inspected at the same time.
const inspectors = 8

// look inspects the locks of the keys, and returns those that are held and waited for. It
// returns the first error, after all of its calls have ended.
func look(ctx context.Context, client *lock.Client, keys iter.Seq2[string, error]) (map[string]lock.Info, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var (
		mu     sync.Mutex // guards the two below
		found  = make(map[string]lock.Info)
		failed error
	)
	fail := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if failed == nil {
			failed = err
		}
		cancel()
	}
	work := make(chan string)
	var all sync.WaitGroup
	for range inspectors {
		all.Go(func() {
			for key := range work {
				info, err := client.Inspect(ctx, key)
				switch {
				case errors.Is(err, lock.ErrWrongType): // List may show other data
				case err != nil:
					fail(err)
				case len(info.Holders) > 0 && len(info.Places) > 0:
					mu.Lock()
					found[key] = info
					mu.Unlock()
				}
			}
		})
	}
	for key, err := range keys {
		if err != nil {
			fail(err)
		}
		if ctx.Err() != nil {
			break
		}
		work <- key
	}
	close(work)
	all.Wait()
	if failed == nil && ctx.Err() != nil { // it ended between two calls
		failed = context.Cause(ctx)
	}
	if failed != nil {
		return nil, failed
	}
	return found, nil
}
