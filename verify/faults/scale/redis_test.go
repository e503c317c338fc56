package scale

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/redisstore"
)

// semaphore is a semaphore with n holders, on its own server.
type semaphore struct {
	t     *testing.T
	admin *redis.Client
	store *redisstore.Store
	n     int
}

const semaphoreName = "permits"

func newSemaphore(t *testing.T, n int) *semaphore {
	admin := testredis.Start(t).Client(t)
	store, err := redisstore.New(admin, &redisstore.Options{Timeout: time.Minute})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, store.Close()) })
	s := &semaphore{t, admin, store, n}
	const workers = 64
	var work sync.WaitGroup
	for worker := range workers {
		work.Go(func() {
			for i := worker; i < n; i += workers {
				s.acquire(i)
			}
		})
	}
	work.Wait()
	require.NoError(t, admin.ConfigSet(t.Context(), "slowlog-log-slower-than", "0").Err())
	require.NoError(t, admin.Do(t.Context(), "slowlog", "reset").Err())
	return s
}

func (s *semaphore) acquire(i int) {
	_, err := s.store.Acquire(s.t.Context(), driver.Request{
		Key: semaphoreName, Owner: fmt.Sprintf("client:%d", i), TTL: 10 * time.Minute, Mode: driver.Permit, Attrs: &driver.Attrs{Limit: s.n + 1},
	})
	assert.NoError(s.t, err)
}

// longest returns the longest duration of one command on the server.
func (s *semaphore) longest() (longest time.Duration) {
	entries, err := s.admin.SlowLogGet(s.t.Context(), -1).Result()
	assert.NoError(s.t, err)
	for _, e := range entries {
		longest = max(longest, e.Duration)
	}
	return longest
}

// TestScriptsAreBounded: the duration of a script must not grow with the number of holders
// of a lock. The server executes nothing else meanwhile, such as renewals of others (L0).
func TestScriptsAreBounded(t *testing.T) {
	few, many := 2_000, size(32_000, 100_000)
	for what, do := range map[string]func(s *semaphore){
		"take a permit next to dead holders": func(s *semaphore) {
			require.NoError(s.t, s.admin.PExpire(s.t.Context(), "lw:{"+semaphoreName+"}", time.Millisecond).Err())
			require.Eventually(s.t, func() bool { return s.admin.Exists(s.t.Context(), "lw:{"+semaphoreName+"}").Val() == 0 }, time.Minute, time.Millisecond)
			s.acquire(s.n)
		},
		"release a semaphore by force": func(s *semaphore) {
			assert.NoError(s.t, s.store.ForceRelease(s.t.Context(), semaphoreName))
		},
	} {
		t.Run(what, func(t *testing.T) {
			assertBounded(t, what, func() (took, bound time.Duration) {
				var longest [2]time.Duration
				for i, n := range []int{few, many} {
					s := newSemaphore(t, n)
					do(s)
					longest[i] = s.longest()
				}
				return longest[1], 4*longest[0] + 20*time.Millisecond
			})
		})
	}
}
