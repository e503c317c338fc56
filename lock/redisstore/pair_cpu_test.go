//go:build unix

package redisstore

import (
	"context"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
)

// BenchmarkPairCPU shows where the processor time of this process goes when a free lock is locked
// and unlocked: in two scripts of go-redis alone, in the store, and in the client with its
// watchdog.
func BenchmarkPairCPU(b *testing.B) {
	s, rdb := sharedStore(b)
	c, err := lock.New(s, nil)
	require.NoError(b, err)
	b.Cleanup(func() { require.NoError(b, c.Close(context.WithoutCancel(b.Context()))) })
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	m := c.Mutex("k")
	take := redis.NewScript("return redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])")
	give := redis.NewScript("if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0")
	for _, level := range []struct {
		name string
		pair func() error
	}{
		{"two scripts of go-redis", func() error {
			if err := take.Run(ctx, rdb, []string{"plain"}, "owner", 30000).Err(); err != nil {
				return err
			}
			return give.Run(ctx, rdb, []string{"plain"}, "owner").Err()
		}},
		{"store", func() error {
			l, err := s.Acquire(ctx, request("k"))
			if err != nil {
				return err
			}
			return s.Release(ctx, l)
		}},
		{"client, TryLock", func() error {
			held, err := m.TryLock(ctx)
			if err != nil {
				return err
			}
			return held.Unlock(ctx)
		}},
		{"client, Lock", func() error {
			held, err := m.Lock(ctx)
			if err != nil {
				return err
			}
			return held.Unlock(ctx)
		}},
	} {
		b.Run(level.name, func(b *testing.B) {
			b.ReportAllocs()
			before := processorTime(b)
			for b.Loop() {
				if err := level.pair(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64((processorTime(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
		})
	}
}

// processorTime returns the processor time that this process has used.
func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	require.NoError(b, syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
