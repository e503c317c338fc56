// The role stepper: a log line for each step under a lock.

package crash

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/lock"
)

// stepWithLocks locks each key again and again. While it holds a lock it takes steps, and appends a line to a log for each: see
// checkLog. The instant is taken before Valid, so the lock was valid at that instant.
func stepWithLocks(ctx context.Context, client *lock.Client, o order) error {
	log, err := os.OpenFile(o.Log, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	if err := send(lockedReport{}); err != nil {
		return err
	}
	const mostSteps, longestStep = 30, 4 * time.Millisecond
	var work sync.WaitGroup
	for _, key := range o.Keys {
		work.Go(func() {
			for ctx.Err() == nil {
				held, err := client.Mutex(key).Lock(ctx)
				if err != nil {
					continue
				}
				for range 1 + rand.N(mostSteps) {
					at := time.Now().UnixNano()
					if !held.Valid() {
						break
					}
					fmt.Fprintf(log, "%s %d %d %d\n", key, held.Token(), os.Getpid(), at)
					time.Sleep(rand.N(longestStep))
				}
				_ = held.Unlock(ctx)
			}
		})
	}
	work.Wait()
	return log.Close()
}
