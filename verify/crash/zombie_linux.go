package crash

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/leasewheel/leasewheel/lock"
)

// aWrite writes to a resource that refuses tokens below the highest that it has
// seen. It answers whether the token was good enough.
var aWrite = redis.NewScript(`
if tonumber(ARGV[1]) < tonumber(redis.call('GET', KEYS[1]) or '0') then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1])
return 1`)

// write writes to what the lock protects.
func write(ctx context.Context, rdb *redis.Client, key string, token uint64) (bool, error) {
	return aWrite.Run(ctx, rdb, []string{"protected " + key}, token).Bool()
}

// linger holds its locks and writes all the time, and goes on for a while when it
// has been told that they are lost. It says what it saw when that is so for all.
func linger(ctx context.Context, client *lock.Client, rdb *redis.Client, o order) error {
	all, err := takeAll(ctx, client, o.Keys)
	if err != nil {
		return err
	}
	said := awake{Leases: map[string]undead{}}
	var mu sync.Mutex // guards said and err
	var work sync.WaitGroup
	for key, held := range all {
		work.Go(func() {
			u, failure := haunt(ctx, held, rdb)
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
	if err := say(said); err != nil {
		return err
	}
	<-ctx.Done() // never: it is there to be stopped, though all was lost before that
	return nil
}

// haunt writes with one lock. It writes whether or not it holds it: what it does only
// if Valid is true, and what it does anyhow, are told apart by what is reported.
func haunt(ctx context.Context, held *lock.Held, rdb *redis.Client) (undead, error) {
	var u undead
	told := make(chan int64, 1)
	bound, cancel := held.Context(ctx)
	defer cancel()
	go func() {
		<-bound.Done()
		told <- time.Now().UnixNano()
	}()
	dead := false
	const after = 10 // writes when it has been told
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
