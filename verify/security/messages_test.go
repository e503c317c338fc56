package security

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/locktest"
)

// forger is a Redis user who may publish, subscribe and list channels, but has no right
// on keys.
type forger struct {
	t        testing.TB
	rdb      *redis.Client
	sent     atomic.Int64 // number of messages sent
	received atomic.Int64
}

// aclServer is a server with users.
type aclServer struct {
	t      testing.TB
	server *testredis.Server
	admin  *redis.Client
}

func newACLServer(t testing.TB) *aclServer {
	if !testredis.Since(6, 0) {
		t.Skip("this server has no users")
	}
	server := testredis.Start(t)
	return &aclServer{t: t, server: server, admin: server.Client(t)}
}

func newForger(a *aclServer) *forger {
	rule := []any{"acl", "setuser", "forger", "reset", "on", ">pw", "resetkeys", "&*", "-@all", "+publish", "+pubsub", "+subscribe", "+psubscribe", "+unsubscribe", "+punsubscribe"}
	require.NoError(a.t, a.admin.Do(a.t.Context(), testredis.ChannelRules(rule...)...).Err())
	rdb := redis.NewClient(&redis.Options{Addr: a.server.Addr(), Username: "forger", Password: "pw", DisableIdentity: true})
	a.t.Cleanup(func() { _ = rdb.Close() })
	return &forger{t: a.t, rdb: rdb}
}

func (f *forger) publish(channel, payload string) {
	if f.rdb.Publish(context.Background(), channel, payload).Err() == nil {
		f.sent.Add(1)
	}
}

// tokens returns tokens that a forger may guess.
func tokens(near uint64) []string {
	var all []string
	for _, token := range []uint64{1, near - 1, near, near + 1, near + 1_000_000, uint64(time.Now().UnixMicro()), 1<<53 - 1} {
		all = append(all, strconv.FormatUint(token, 10))
	}
	return append(all, "0")
}

// TestForgedSignals publishes messages of a hand-over to all waiters, with every owner
// that can be derived from the name of a channel.
func TestForgedSignals(t *testing.T) {
	t.Parallel()
	a := newACLServer(t)
	f := newForger(a)
	holders := newClient(t, storeWith(t, a.admin, "lw:"), nil)
	waiters := newClient(t, storeWith(t, a.admin, "lw:"), nil)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var calls sync.WaitGroup
	for name, kind := range kinds {
		h, err := kind(holders).Lock(ctx)
		require.NoError(t, err, name)
		calls.Go(func() {
			got, err := kind(waiters).Lock(ctx)
			if assert.ErrorIs(t, err, context.Canceled, "%s: a forged message was believed", name) {
				return
			}
			assert.False(t, h.Valid() && got.Valid(), "%s: two hold it", name)
		})
		defer func() { assert.True(t, h.Valid(), name) }()
	}
	var channels []string
	require.Eventually(t, func() bool {
		channels = f.rdb.PubSubChannels(ctx, "*").Val()
		return waiters.Stats().Waiting == len(kinds) && len(channels) > 0
	}, 10*time.Second, time.Millisecond)
	for _, channel := range channels {
		id := strings.TrimPrefix(channel, "lw:")
		for n := range 300 {
			for _, token := range tokens(uint64(time.Now().UnixMicro())) {
				owner := id + ":" + strconv.FormatInt(int64(n), 36)
				f.publish(channel, owner+" "+token)
			}
		}
	}
	cancel()
	calls.Wait()
	assert.Greater(t, f.sent.Load(), int64(2000))
	report.Add("forged       %d messages to known channels: no effect", f.sent.Load())
}

// kinds are the locks of one key that exclude each other.
var kinds = map[string]func(*lock.Client) lock.Locker{
	"mutex":     func(c *lock.Client) lock.Locker { return c.Mutex("mutex") },
	"writer":    func(c *lock.Client) lock.Locker { return c.RWMutex("writer") },
	"semaphore": func(c *lock.Client) lock.Locker { return c.Semaphore("semaphore", 1) },
	"batch":     func(c *lock.Client) lock.Locker { return c.Batch("batch", "a", "b") },
	"state":     func(c *lock.Client) lock.Locker { return c.With(lock.Terms{StateTTL: time.Hour}).Mutex("state") },
}

// TestAlteredSignals repeats every message of a hand-over, unchanged and with other
// tokens, tags and states, while many callers contend for a few locks.
func TestAlteredSignals(t *testing.T) {
	t.Parallel()
	const clients, enough = 4, 200
	a := newACLServer(t)
	f := newForger(a)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	ps := f.rdb.PSubscribe(ctx, "*")
	_, err := ps.Receive(ctx)
	require.NoError(t, err)
	var work sync.WaitGroup
	work.Go(func() { f.alter(ctx, ps) })
	defer work.Wait()
	defer func() { _ = ps.Close() }() // this also ends a read

	ex := locktest.NewExclusion()
	var last string // what the last holder of "state" has saved; its lock guards it
	var contenders sync.WaitGroup
	for range clients {
		c := newClient(t, storeWith(t, a.admin, "lw:"), nil)
		for name, kind := range kinds {
			contenders.Go(func() {
				for f.received.Load() < enough {
					h, err := kind(c).Lock(ctx)
					if !assert.NoError(t, err, name) {
						return
					}
					if assert.True(t, h.Valid(), name) {
						ex.Enter(name, h.Token())
						if name == "state" {
							saved, _ := h.State()
							assert.Equal(t, last, string(saved), "a state that the last holder did not save")
							last = strconv.FormatUint(h.Token(), 10)
							assert.NoError(t, h.Save(ctx, []byte(last)))
						}
						assert.Less(t, h.Token(), uint64(time.Now().UnixMicro())+1_000_000, "a token that was never granted")
						ex.Leave(name, h.Token())
					}
					assert.NoError(t, h.Unlock(ctx), "%s: the owner and token differ from those of the server", name)
				}
			})
		}
	}
	contenders.Wait()
	assert.Empty(t, ex.Violations())
	report.Add("altered      %d messages received, %d made of them: no effect", f.received.Load(), f.sent.Load())
}

// alter repeats each message, unchanged and altered.
func (f *forger) alter(ctx context.Context, ps *redis.PubSub) {
	seen := map[string]bool{}
	for {
		m, err := ps.ReceiveMessage(ctx)
		if err != nil {
			return
		}
		if seen[m.Payload] { // its own message
			continue
		}
		f.received.Add(1)
		pipe := f.rdb.Pipeline()
		send := func(payload string) {
			seen[payload] = true
			pipe.Publish(ctx, m.Channel, payload)
		}
		parts := strings.SplitN(m.Payload, " ", 4)
		send(m.Payload)
		near := parts[min(1, len(parts)-1)]
		number, _ := strconv.ParseUint(near, 10, 64)
		for _, token := range tokens(number) {
			send(fmt.Sprint(parts[0], " ", token))
			if len(parts) >= 3 {
				send(fmt.Sprint(parts[0], " ", token, " ", parts[2]))
				send(fmt.Sprint(parts[2], " ", token, " ", parts[0]))
			}
			if len(parts) == 4 {
				send(fmt.Sprint(parts[0], " ", token, " ", parts[2], " ", parts[3]))
			}
		}
		for _, state := range []string{"", near + " 1 forged"} {
			send(fmt.Sprint(parts[0], " ", near, " ", parts[min(2, len(parts)-1)], " ", state))
		}
		messages := pipe.Len()
		if _, err := pipe.Exec(ctx); err == nil {
			f.sent.Add(int64(messages))
		}
	}
}
