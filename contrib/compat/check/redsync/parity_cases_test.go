package redsync

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
)

// The tests of this file run with the original and with this package.

func TestALockIsAKeyWithTheValue(t *testing.T) {
	both(t, func(t *testing.T, l library) {
		servers, key := clients(t, 3), newKey(t)
		m := l.newMutex(servers, key, expiry(time.Hour), drift(0.5))
		assert.Equal(t, key, m.Name())
		assert.Empty(t, m.Value())
		assert.Zero(t, m.Until())

		before := time.Now()
		require.NoError(t, m.LockContext(t.Context()))
		after := time.Now()
		assert.Len(t, m.Value(), 24)
		assert.Equal(t, slices.Repeat([]string{m.Value()}, 3), values(t, servers, key))
		assert.False(t, m.Until().Before(before.Add(time.Hour/2)))
		assert.False(t, m.Until().After(after.Add(time.Hour/2)))
		for _, c := range servers {
			ttl := c.PTTL(t.Context(), key).Val()
			assert.LessOrEqual(t, ttl, time.Hour)
			assert.Greater(t, ttl, time.Hour-time.Minute)
		}
		v := m.Value()
		ok, err := m.UnlockContext(t.Context())
		require.NoError(t, err)
		assert.True(t, ok)
		assert.Equal(t, []string{"", "", ""}, values(t, servers, key))
		assert.Equal(t, v, m.Value(), "Unlock keeps it")

		require.NoError(t, m.TryLock())
		assert.NotEqual(t, v, m.Value())
	})
}

func TestATakenLock(t *testing.T) {
	both(t, func(t *testing.T, l library) {
		servers, key := clients(t, 3), newKey(t)
		holder := l.newMutex(servers, key)
		require.NoError(t, holder.TryLock())

		m := l.newMutex(servers, key)
		nodes, ok := takenNodes(m.TryLockContext(t.Context()))
		require.True(t, ok)
		slices.Sort(nodes)
		assert.Equal(t, []int{0, 1, 2}, nodes)
		assert.Empty(t, m.Value())

		unlocked, err := m.Unlock()
		assert.False(t, unlocked)
		_, ok = takenNodes(err)
		assert.True(t, ok)
		extended, err := m.Extend()
		assert.False(t, extended)
		_, ok = takenNodes(err)
		assert.True(t, ok)
		valid, err := m.Valid()
		assert.False(t, valid)
		_, ok = takenNodes(err)
		assert.True(t, ok)

		valid, err = holder.ValidContext(t.Context())
		assert.True(t, valid)
		assert.NoError(t, err)
	})
}

func TestLockTriesAsOftenAsItMay(t *testing.T) {
	both(t, func(t *testing.T, l library) {
		servers, key := clients(t, 1), newKey(t)
		set(t, key, "another", servers...)
		var delays []int
		m := l.newMutex(servers, key, tries(4), delayFunc(func(n int) time.Duration {
			delays = append(delays, n)
			return time.Microsecond
		}))
		_, ok := takenNodes(m.Lock())
		assert.True(t, ok)
		assert.Equal(t, []int{1, 2, 3}, delays)

		assert.Equal(t, l.failed, l.newMutex(servers, key, tries(0)).Lock(), "not wrapped")
		assert.Equal(t, []string{"another"}, values(t, servers, key))
	})
}

func TestAMajorityDecides(t *testing.T) {
	both(t, func(t *testing.T, l library) {
		servers := clients(t, 4)
		for mask := range 1 << len(servers) {
			key, free := newKey(t), 0
			want := make([]string, len(servers))
			for i, c := range servers {
				if mask>>i&1 == 0 {
					free++
					continue
				}
				set(t, key, "another", c)
				want[i] = "another"
			}
			m := l.newMutex(servers, key, tries(1))
			err := m.Lock()
			_, taken := takenNodes(err)
			switch {
			case free >= 3:
				require.NoError(t, err)
				for i := range want {
					if want[i] == "" {
						want[i] = m.Value()
					}
				}
				assert.Equal(t, want, values(t, servers, key))
				succeeds(t, m.Extend, m.Unlock)
			case free == 2:
				assert.False(t, taken)
				node, ok := takenNode(err)
				assert.True(t, ok)
				assert.Equal(t, 1, mask>>node&1, "the key is taken there")
				assert.Equal(t, want, values(t, servers, key), "the copies are released")
			default:
				assert.True(t, taken)
				assert.Equal(t, want, values(t, servers, key), "the copies are released")
			}
		}
	})
}

func TestExtend(t *testing.T) {
	both(t, func(t *testing.T, l library) {
		servers, key := clients(t, 3), newKey(t)
		m := l.newMutex(servers, key, expiry(time.Hour))
		require.NoError(t, m.Lock())
		first := m.Until()
		for _, c := range servers {
			require.NoError(t, c.PExpire(t.Context(), key, time.Minute).Err())
		}
		ok, err := m.ExtendContext(t.Context())
		require.NoError(t, err)
		assert.True(t, ok)
		assert.True(t, m.Until().After(first))
		for _, c := range servers {
			assert.Greater(t, c.PTTL(t.Context(), key).Val(), time.Minute)
		}
		shorter := l.newMutex(servers, key, expiry(time.Minute), value(m.Value()))
		succeeds(t, shorter.Extend)
		for _, c := range servers {
			assert.LessOrEqual(t, c.PTTL(t.Context(), key).Val(), time.Minute)
		}
	})
}

func TestAnExpiredLock(t *testing.T) {
	both(t, func(t *testing.T, l library) {
		servers, key := clients(t, 3), newKey(t)
		m := l.newMutex(servers, key)
		require.NoError(t, m.Lock())
		expire(t, key, servers...)

		ok, err := m.Extend()
		assert.False(t, ok)
		_, taken := takenNodes(err)
		assert.True(t, taken)
		ok, err = m.Unlock()
		assert.False(t, ok)
		assert.ErrorIs(t, err, l.expired)
		ok, _ = m.Valid()
		assert.False(t, ok)

		require.NoError(t, m.Lock())
		expire(t, key, servers[0])
		ok, err = m.Unlock()
		assert.True(t, ok, "a majority had it")
		assert.NoError(t, err)
	})
}

func TestSetNXOnExtend(t *testing.T) {
	both(t, func(t *testing.T, l library) {
		servers, key := clients(t, 3), newKey(t)
		m := l.newMutex(servers, key, setNXOnExtend(), expiry(time.Hour))
		require.NoError(t, m.Lock())
		require.NoError(t, servers[0].PExpire(t.Context(), key, time.Minute).Err())
		expire(t, key, servers[1:]...)
		succeeds(t, m.Extend)
		assert.Equal(t, slices.Repeat([]string{m.Value()}, 3), values(t, servers, key))
		for _, c := range servers {
			assert.Greater(t, c.PTTL(t.Context(), key).Val(), time.Minute)
		}
		set(t, key, "another", servers...)
		ok, err := m.Extend()
		assert.False(t, ok)
		_, taken := takenNodes(err)
		assert.True(t, taken)
		assert.Equal(t, "another", values(t, servers, key)[0])
	})
}

func TestExtendOnServersThatAreOutOfMemory(t *testing.T) {
	both(t, func(t *testing.T, l library) {
		server := testredis.Start(t)
		servers, key := []*redis.Client{server.Client(t)}, newKey(t)
		plain := l.newMutex(servers, key, expiry(time.Hour))
		restoring := l.newMutex(servers, key+"-restoring", setNXOnExtend(), expiry(time.Hour))
		require.NoError(t, plain.Lock())
		require.NoError(t, restoring.Lock())
		require.NoError(t, servers[0].ConfigSet(t.Context(), "maxmemory", "1").Err())
		for _, m := range []mutex{plain, restoring} {
			require.NoError(t, servers[0].PExpire(t.Context(), m.Name(), time.Minute).Err())
			ok, err := m.Extend()
			require.NoError(t, err, m.Name())
			assert.True(t, ok)
			assert.Greater(t, servers[0].PTTL(t.Context(), m.Name()).Val(), time.Minute)
		}
		expire(t, restoring.Name(), servers...)
		ok, err := restoring.Extend()
		assert.False(t, ok)
		assert.ErrorContains(t, err, "OOM", "the server does not store the key again")
		succeeds(t, plain.Unlock)
	})
}

func TestAValueMovesALockToAnotherMutex(t *testing.T) {
	both(t, func(t *testing.T, l library) {
		servers, key := clients(t, 3), newKey(t)
		first := l.newMutex(servers, key, fixedValue("mine"))
		require.NoError(t, first.Lock())
		assert.Equal(t, []string{"mine", "mine", "mine"}, values(t, servers, key))

		second := l.newMutex(servers, key, value(first.Value()))
		assert.Equal(t, "mine", second.Value())
		succeeds(t, second.Valid, second.Extend, second.Unlock)
		_, err := first.Unlock()
		assert.ErrorIs(t, err, l.expired)

		oops := errors.New("oops")
		assert.Same(t, oops, l.newMutex(servers, key, genValue(func() (string, error) { return "", oops })).Lock())
	})
}

func TestAServerThatIsDown(t *testing.T) {
	both(t, func(t *testing.T, l library) {
		servers, key := clients(t, 3), newKey(t)
		down := redis.NewClient(&redis.Options{Addr: closedPort(t), MaxRetries: -1, DialerRetries: 1})
		t.Cleanup(func() { _ = down.Close() })

		minority := []*redis.Client{servers[0], down, servers[2]}
		m := l.newMutex(minority, key)
		require.NoError(t, m.Lock())
		succeeds(t, m.Extend)
		ok, err := m.Valid()
		assert.True(t, ok)
		failure, _ := redisError(err)
		assert.Equal(t, 1, failure.Node)
		assert.Error(t, failure.Err)
		succeeds(t, m.Unlock)

		other := redis.NewClient(down.Options())
		t.Cleanup(func() { _ = other.Close() })
		m = l.newMutex([]*redis.Client{servers[0], down, other}, key)
		err = m.TryLock()
		var fault *net.OpError
		assert.ErrorAs(t, err, &fault)
		assert.Contains(t, err.Error(), "node #1: ")
		assert.Contains(t, err.Error(), "node #2: ")
		assert.Empty(t, values(t, servers[:1], key)[0], "the copy is released")
		ok, err = m.Unlock()
		assert.False(t, ok)
		assert.ErrorIs(t, err, l.expired, "of the first node")
		assert.ErrorAs(t, err, &fault, "of the others")
	})
}

func TestAContextThatHasEnded(t *testing.T) {
	both(t, func(t *testing.T, l library) {
		servers, key := clients(t, 3), newKey(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		m := l.newMutex(servers, key)
		assert.ErrorIs(t, m.TryLockContext(ctx), context.Canceled)
		assert.Equal(t, l.failed, m.LockContext(ctx), "not wrapped")
		assert.Equal(t, []string{"", "", ""}, values(t, servers, key))

		require.NoError(t, m.Lock())
		ok, err := m.ExtendContext(ctx)
		assert.False(t, ok)
		assert.ErrorIs(t, err, context.Canceled)
		ok, err = m.UnlockContext(ctx)
		assert.False(t, ok)
		assert.ErrorIs(t, err, context.Canceled)
	})
}

func TestAContextThatEndsBetweenTries(t *testing.T) {
	both(t, func(t *testing.T, l library) {
		servers, key := clients(t, 1), newKey(t)
		set(t, key, "another", servers...)
		ctx, cancel := context.WithCancel(t.Context())
		m := l.newMutex(servers, key, delayFunc(func(int) time.Duration {
			cancel()
			return time.Hour
		}))
		assert.Equal(t, l.failed, m.LockContext(ctx), "not wrapped")
	})
}

func TestTheTextsOfErrors(t *testing.T) {
	texts := map[string]string{}
	both(t, func(t *testing.T, l library) {
		servers, key := clients(t, 2), newKey(t)
		set(t, key, "another", servers...)
		m := l.newMutex(servers, key)
		list := []error{l.failed, l.extendFailed, l.expired}
		expire(t, key, servers[1])
		list = append(list, m.TryLock())
		_, err := m.Unlock()
		list = append(list, err)
		lines := strings.Split(errors.Join(list...).Error(), "\n")
		slices.Sort(lines) // nodes answer in any order
		texts[l.name] = strings.Join(lines, "\n")
	})
	assert.Equal(t, texts["original"], texts["ours"])
	assert.Contains(t, texts["ours"], "node #0: lock already taken")
}

// closedPort returns an address on which nothing listens.
func closedPort(t *testing.T) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer func() { _ = l.Close() }()
	return l.Addr().String()
}
