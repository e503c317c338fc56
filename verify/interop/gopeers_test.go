package interop

import (
	"bufio"
	"context"
	_ "embed" // go.mod has the versions
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	goruntime "runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/verify/interop/internal/report"
)

// peerEnv is set in the environment of a process that is a peer. Its value is the library.
const peerEnv = "INTEROP_PEER"

const retry = time.Millisecond // between two attempts

var shared testredis.Shared

func TestMain(m *testing.M) {
	logging.Disable()
	if library := os.Getenv(peerEnv); library != "" {
		servePeer(library, os.Args[len(os.Args)-1])
		return
	}
	flag.Parse()
	if err := flag.Set("test.parallel", "16"); err != nil { // the parallel tests wait for leases to end
		panic(err)
	}
	goleak.VerifyTestMain(report.Around(shared.Around(m), "lock/redlock"))
}

// library is what a peer in Go does with its library. A lock is whatever the library returns.
type library struct {
	module  string
	acquire func(ctx context.Context, key string, ttl time.Duration, wait bool) (lock any, held bool, err error)
	extend  func(lock any, ttl time.Duration) (held bool, err error)
	release func(lock any) (held bool, err error)
}

// servePeer answers requests until the input ends. The counters are on the first server.
func servePeer(name, addrs string) {
	var all []*redis.Client
	for addr := range strings.SplitSeq(addrs, ",") {
		all = append(all, redis.NewClient(&redis.Options{Addr: addr}))
	}
	rdb := all[0]
	l := map[string]func(...*redis.Client) library{"redsync": useRedsync, "redislock": useRedislock}[name](all...)
	locks := map[string]any{}
	out := json.NewEncoder(os.Stdout)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		var r request
		a, err := answer{}, json.Unmarshal(in.Bytes(), &r)
		if err == nil {
			a, err = l.serve(rdb, locks, r)
		}
		if err != nil {
			a = answer{Error: err.Error()}
		}
		if out.Encode(a) != nil {
			return
		}
	}
}

func (l library) serve(rdb *redis.Client, locks map[string]any, r request) (a answer, err error) {
	ttl := time.Duration(r.TTL) * time.Millisecond
	ctx := context.Background()
	switch r.Do {
	case "hello":
		a.Version = l.module + " " + moduleVersion(l.module) + ", " + goruntime.Version()
	case "acquire":
		if r.Wait > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, time.Duration(r.Wait)*time.Millisecond)
			defer cancel()
		}
		locks[r.Key], a.Held, err = l.acquire(ctx, r.Key, ttl, r.Wait > 0)
	case "extend":
		a.Held, err = l.extend(locks[r.Key], ttl)
	case "release":
		a.Held, err = l.release(locks[r.Key])
	case "rounds":
		for range r.N {
			turn, err := l.round(ctx, rdb, r, ttl)
			if err != nil {
				return a, err
			}
			a.Turns = append(a.Turns, turn)
		}
	default:
		return a, fmt.Errorf("unknown request %q", r.Do)
	}
	return a, err
}

func (l library) round(ctx context.Context, rdb *redis.Client, r request, ttl time.Duration) (turn [2]int64, err error) {
	held, ok, err := l.acquire(ctx, r.Key, ttl, true)
	if err != nil || !ok {
		return turn, errors.Join(err, errors.New("not acquired"))
	}
	begin := time.Now().UnixNano()
	if err := increment(ctx, rdb, r.Counter); err != nil {
		return turn, err
	}
	turn = [2]int64{begin, time.Now().UnixNano()}
	_, err = l.release(held)
	return turn, err
}

// increment reads a counter and then writes it, so that two at a time lose an update.
func increment(ctx context.Context, rdb *redis.Client, counter string) error {
	n, err := rdb.Get(ctx, counter).Int()
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	return rdb.Set(ctx, counter, strconv.Itoa(n+1), 0).Err()
}

// moduleVersion returns the version of a module that this one requires.
func moduleVersion(path string) string {
	for line := range strings.Lines(goMod) {
		if version, found := strings.CutPrefix(strings.TrimSpace(line), path+" "); found {
			return version
		}
	}
	return "of an unknown version"
}

//go:embed go.mod
var goMod string

func useRedsync(rdbs ...*redis.Client) library {
	var pools []redsyncredis.Pool
	for _, rdb := range rdbs {
		pools = append(pools, goredis.NewPool(rdb))
	}
	rs := redsync.New(pools...)
	return library{
		module: "github.com/go-redsync/redsync/v4",
		acquire: func(ctx context.Context, key string, ttl time.Duration, wait bool) (any, bool, error) {
			m := rs.NewMutex(key, redsync.WithExpiry(ttl), redsync.WithTries(1_000_000), redsync.WithRetryDelay(retry))
			if !wait {
				err := m.TryLockContext(ctx)
				return m, err == nil, ignoreTaken(err, redsync.ErrFailed)
			}
			err := m.LockContext(ctx)
			return m, err == nil, ignoreTaken(err, redsync.ErrFailed)
		},
		extend: func(l any, _ time.Duration) (bool, error) {
			ok, err := l.(*redsync.Mutex).Extend()
			return ok, ignoreTaken(err, redsync.ErrExtendFailed)
		},
		release: func(l any) (bool, error) {
			ok, err := l.(*redsync.Mutex).Unlock()
			return ok, ignoreTaken(err, redsync.ErrLockAlreadyExpired)
		},
	}
}

// ignoreTaken returns nil for an error that says that the lock is not held.
func ignoreTaken(err, is error) error {
	if errors.Is(err, is) || errors.As(err, new(*redsync.ErrTaken)) {
		return nil
	}
	return err
}

func useRedislock(rdbs ...*redis.Client) library {
	client := redislock.New(rdbs[0])
	return library{
		module: "github.com/bsm/redislock",
		acquire: func(ctx context.Context, key string, ttl time.Duration, wait bool) (any, bool, error) {
			o := &redislock.Options{Metadata: "metadata of the holder"}
			if wait {
				o.RetryStrategy = redislock.LinearBackoff(retry)
			}
			l, err := client.Obtain(ctx, key, ttl, o)
			if errors.Is(err, redislock.ErrNotObtained) || errors.Is(err, context.DeadlineExceeded) {
				return nil, false, nil
			}
			return l, err == nil, err
		},
		extend: func(l any, ttl time.Duration) (bool, error) {
			err := l.(*redislock.Lock).Refresh(context.Background(), ttl, nil)
			if errors.Is(err, redislock.ErrNotObtained) {
				return false, nil
			}
			return err == nil, err
		},
		release: func(l any) (bool, error) {
			err := l.(*redislock.Lock).Release(context.Background())
			if errors.Is(err, redislock.ErrLockNotHeld) {
				return false, nil
			}
			return err == nil, err
		},
	}
}
