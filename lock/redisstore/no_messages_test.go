package redisstore

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"io"
	"log/slog"
	"net"
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
	"github.com/leasewheel/leasewheel/lock/driver"
)

// Where a server or a proxy has no messages, waiters poll, a client logs that once, and a check finds it.
func TestWaitersPollWithoutMessages(t *testing.T) {
	t.Parallel()
	srv := testredis.Start(t)
	clients := map[string]*redis.Client{"proxy": redis.NewClient(&redis.Options{Addr: srv.Addr(), Dialer: dialWithoutMessages})}
	if admin := srv.Client(t); hasUsers(t, admin) {
		user := testredis.ChannelRules("acl", "setuser", "mute", "reset", "on", ">pw", "~*", "&*", "+@all", "-subscribe")
		require.NoError(t, admin.Do(t.Context(), user...).Err())
		clients["user"] = redis.NewClient(&redis.Options{Addr: srv.Addr(), Username: "mute", Password: "pw"})
		user = testredis.ChannelRules("acl", "setuser", "listener", "reset", "on", ">pw", "~*", "&*", "+@all", "-publish")
		require.NoError(t, admin.Do(t.Context(), user...).Err())
		clients["listener"] = redis.NewClient(&redis.Options{Addr: srv.Addr(), Username: "listener", Password: "pw"})
	}
	instrument := map[string]func(*redis.Client) error{"silent": (&testredis.Hosted{Silent: true}).Attach}
	clients["silent"] = srv.Client(t)
	for name, rdb := range clients {
		t.Run(name, func(t *testing.T) {
			defer rdb.Close()
			code := "no-messages"
			if name == "listener" {
				code = "rights-messages"
			}
			assert.Equal(t, SeverityWarning, findingOf(t, checked(t, rdb, &Options{Prefix: name, Instrument: instrument[name]}), code).Severity)
			s, err := New(rdb, &Options{Prefix: name, Instrument: instrument[name]})
			require.NoError(t, err)
			var log lockedBuffer
			c, err := lock.New(s, &lock.Options{Logger: slog.New(slog.NewTextHandler(&log, nil)), Terms: lock.Terms{TTL: 3 * time.Second}})
			require.NoError(t, err)
			for _, key := range []string{"a", "b"} {
				held, err := c.Mutex(key).Lock(t.Context())
				require.NoError(t, err)
				waited := make(chan error, 1)
				go func() {
					held, err := c.Mutex(key).Lock(t.Context())
					if err == nil {
						err = held.Unlock(t.Context())
					}
					waited <- err
				}()
				require.Eventually(t, func() bool { return log.count("waiters poll") > 0 }, long, 10*time.Millisecond)
				require.NoError(t, held.Unlock(t.Context()))
				require.NoError(t, <-waited)
			}
			require.NoError(t, c.Close(context.Background()))
			assert.Equal(t, 1, log.count("waiters poll"), log.String())
		})
	}
}

// Where a server takes no messages from scripts, the client that has sent the script publishes them.
func TestTheClientPublishesWhatAScriptMayNot(t *testing.T) {
	t.Parallel()
	hosted, calls := &testredis.Hosted{Mute: true}, new(testredis.Counter)
	s := newStore(t, testredis.Start(t).Client(t), &Options{Place: time.Hour, Instrument: func(rdb *redis.Client) error {
		return errors.Join(hosted.Attach(rdb), calls.Attach(rdb))
	}})
	scripts := 1 // the proof of the subscription
	for _, mode := range []driver.Mode{driver.Exclusive, driver.Write} {
		for name, end := range map[string]func(l driver.Lease) error{
			"release": func(l driver.Lease) error { return s.Release(t.Context(), l) },
			"bulk": func(l driver.Lease) error {
				out := make([]error, 1)
				return errors.Join(s.ReleaseAll(t.Context(), []driver.Lease{l}, out), out[0])
			},
			"force": func(l driver.Lease) error { return s.ForceRelease(t.Context(), l.Key) },
		} {
			r := requestFor(mode.String()+name, time.Hour)
			r.Mode = mode
			l := acquire(t, s, r)
			r.Owner = rand.Text() + ":1"
			scripts += calls.Returned(testredis.Forgotten) + 2 // of the waiter
			done := startWait(t.Context(), t, s, r)
			require.Eventually(t, func() bool { return calls.Returned(testredis.Forgotten) == scripts }, long, time.Millisecond)
			scripts = 0
			require.NoError(t, end(l), name)
			select {
			case w := <-done:
				require.NoError(t, w.err, name)
				require.NoError(t, s.Release(t.Context(), w.Lease), name)
			case <-time.After(soon):
				require.Fail(t, "the waiter is not told", "%v, %s", mode, name)
			}
		}
	}
}

// dialWithoutMessages dials a connection that ends when it gets SUBSCRIBE, as proxies do.
func dialWithoutMessages(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := new(net.Dialer).DialContext(ctx, network, addr)
	return &withoutMessages{Conn: conn}, err
}

type withoutMessages struct {
	net.Conn
	ended atomic.Bool
}

// Write implements net.Conn.
func (c *withoutMessages) Write(p []byte) (int, error) {
	if bytes.Contains(p, []byte("\r\nsubscribe\r\n")) {
		c.ended.Store(true)
		return len(p), c.Close()
	}
	return c.Conn.Write(p)
}

// Read implements net.Conn.
func (c *withoutMessages) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.ended.Load() {
		err = io.EOF
	}
	return n, err
}

type lockedBuffer struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

// Write implements io.Writer.
func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func (b *lockedBuffer) count(text string) int { return strings.Count(b.String(), text) }
