// The role writer: fenced writes during a lock and after its loss.

package crash

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/lock"
)

// fencedWrite writes to a resource that rejects tokens below the highest one so far. It
// returns whether it accepted the token.
var fencedWrite = redis.NewScript(`
if tonumber(ARGV[1]) < tonumber(redis.call('GET', KEYS[1]) or '0') then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1])
return 1`)

// write writes to the resource that the lock protects.
func write(ctx context.Context, rdb *redis.Client, key string, token uint64) (bool, error) {
	return fencedWrite.Run(ctx, rdb, []string{"protected " + key}, token).Bool()
}

// writeWithLocks holds its locks and writes all the time, and continues for a while after
// it was notified of their loss. It sends a report when all locks are lost.
func writeWithLocks(ctx context.Context, client *lock.Client, rdb *redis.Client, o order) error {
	all, err := lockAll(ctx, client, o.Keys)
	if err != nil {
		return err
	}
	said := lostReport{Leases: map[string]leaseReport{}}
	var mu sync.Mutex // guards said and err
	var work sync.WaitGroup
	for key, held := range all {
		work.Go(func() {
			u, failure := writeWithLock(ctx, held, rdb)
			mu.Lock()
			defer mu.Unlock()
			said.Leases[key] = u
			err = errors.Join(err, failure)
		})
	}
	work.Wait()
	if err != nil {
		return err
	}
	if err := send(said); err != nil {
		return err
	}
	<-ctx.Done() // stay alive until killed, because the parent will stop the process
	return nil
}

// writeWithLock writes with one lock, whether or not it still holds it. The report counts
// writes after a Valid that was true separately.
func writeWithLock(ctx context.Context, held *lock.Held, rdb *redis.Client) (leaseReport, error) {
	var u leaseReport
	told := make(chan int64, 1)
	bound, cancel := held.Context(ctx)
	defer cancel()
	go func() {
		<-bound.Done()
		told <- time.Now().UnixNano()
	}()
	dead := false
	const after = 10 // number of writes after the notice
	for left := after; left > 0; {
		now := time.Now().UnixNano()
		valid := held.Valid()
		dead = dead || !valid
		switch {
		case !dead:
			u.Valid = now
		case valid || held.Err() == nil:
			u.Revivals++
		case bound.Err() == nil:
			u.Untold++
		}
		ok, err := write(ctx, rdb, held.Key(), held.Token())
		switch {
		case err != nil:
			return u, err
		case ok:
			u.Written = now
		default:
			u.Refused++
			if valid {
				u.Guarded++
			}
		}
		if bound.Err() != nil {
			left--
		}
		time.Sleep(time.Millisecond)
	}
	u.Told = <-told
	cause := context.Cause(bound)
	u.Cause, u.WasLoss = cause.Error(), errors.Is(cause, lock.ErrLost)
	return u, nil
}
