package security

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/redisstore"
	"github.com/leasewheel/leasewheel/renewal"
)

// leakDetector collects everything that a program might print, and the secrets that it
// must not print.
type leakDetector struct {
	t testing.TB

	mu      sync.Mutex // guards the fields below
	printed bytes.Buffer
	texts   int
	secrets []string
}

// Write implements io.Writer, for logs.
func (c *leakDetector) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.texts++
	return c.printed.Write(p)
}

// Printf implements the logger interface of go-redis.
func (c *leakDetector) Printf(_ context.Context, format string, args ...any) {
	fmt.Fprintf(c, format+"\n", args...)
}

// logger returns a logger that writes each record as text and as JSON, at every level.
func (c *leakDetector) logger() *slog.Logger {
	o := &slog.HandlerOptions{Level: slog.LevelDebug, AddSource: true}
	return slog.New(slog.NewMultiHandler(slog.NewTextHandler(c, o), slog.NewJSONHandler(c, o)))
}

// record formats values in every way.
func (c *leakDetector) record(values ...any) {
	for _, v := range values {
		if err, ok := v.(error); ok {
			c.recordError(err)
			continue
		}
		c.format(v)
	}
}

func (c *leakDetector) format(v any) {
	fmt.Fprintf(c, "%v\n%+v\n%#v\n%s\n%q\n", v, v, v, v, v)
	if text, err := json.Marshal(v); err == nil {
		fmt.Fprintln(c, string(text))
	}
	c.logger().Debug("value", slog.Any("value", v))
}

// recordError records an error and every error that it wraps.
func (c *leakDetector) recordError(err error) {
	if err == nil {
		return
	}
	c.format(err)
	switch e := err.(type) { //nolint:errorlint // the loop visits each error itself
	case interface{ Unwrap() error }:
		c.recordError(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			c.recordError(inner)
		}
	}
}

// addSecrets adds texts that must not be printed.
func (c *leakDetector) addSecrets(texts ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.secrets = append(c.secrets, texts...)
}

func (c *leakDetector) assertNone() {
	c.mu.Lock()
	defer c.mu.Unlock()
	lines := strings.Split(c.printed.String(), "\n")
	for _, secret := range c.secrets {
		for _, line := range lines {
			if strings.Contains(line, secret) {
				assert.Fail(c.t, "a secret was printed", "%s in %.300s", secret, line)
				break
			}
		}
	}
}

// recordingStore is a store that adds its owners to the secrets and records its results.
type recordingStore struct {
	*redisstore.Store
	leaks *leakDetector
}

// Acquire implements driver.Store.
func (s recordingStore) Acquire(ctx context.Context, r driver.Request) (driver.Lease, error) {
	s.addOwner(r.Owner)
	l, err := s.Store.Acquire(ctx, r)
	s.leaks.record(l, r, err)
	return l, err
}

// Wait implements driver.Store.
func (s recordingStore) Wait(ctx context.Context, r driver.Request, queued func()) (driver.Lease, error) {
	s.addOwner(r.Owner)
	l, err := s.Store.Wait(ctx, r, queued)
	s.leaks.record(l, r, err)
	return l, err
}

// Release implements driver.Store.
func (s recordingStore) Release(ctx context.Context, l driver.Lease) error {
	err := s.Store.Release(ctx, l)
	s.leaks.record(l, err)
	return err
}

func (s recordingStore) addOwner(owner string) {
	client, _, _ := strings.Cut(owner, ":")
	s.leaks.addSecrets(owner, client)
}

// TestSecretsAreNotPrinted lets a client meet faults of every kind, formats all values,
// errors and logs, and looks for owners, passwords and users in them.
func TestSecretsAreNotPrinted(t *testing.T) {
	x := newLeakTest(t)
	for _, step := range []func(){x.normalUse, x.losses, x.waiting, x.wrongType, x.noRights, x.noAuth, x.serverHangs, x.serverDies, x.clientClosed} {
		step()
	}
	assert.Greater(t, x.lostCount.count(), 4)
	x.leaks.assertNone()
	x.leaks.mu.Lock()
	defer x.leaks.mu.Unlock()
	assert.Greater(t, len(x.leaks.secrets), 20)
	assert.Greater(t, x.leaks.texts, 500)
	report.Add("secrets      %d texts contain none of %d secrets", x.leaks.texts, len(x.leaks.secrets))
}

// leakTest is a client and a server that meet faults.
type leakTest struct {
	t         *testing.T
	leaks     *leakDetector
	server    *testredis.Server
	admin     *redis.Client
	user      string
	store     recordingStore
	client    *lock.Client
	lostCount *counter
}

type counter struct {
	mu sync.Mutex // guards n
	n  int
}

func (l *counter) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

const leakTTL = 600 * time.Millisecond

func newLeakTest(t *testing.T) *leakTest {
	if !testredis.Since(6, 0) {
		t.Skip("this server has no users")
	}
	x := &leakTest{t: t, leaks: &leakDetector{t: t}, server: testredis.Start(t), user: "user-" + rand.Text(), lostCount: new(counter)}
	redis.SetLogger(x.leaks)
	logging.SetLogLevel(logging.LogLevelDebug)
	usual := slog.Default()
	slog.SetDefault(x.leaks.logger())
	t.Cleanup(func() {
		slog.SetDefault(usual)
		logging.Disable()
	})
	password := "password-" + rand.Text()
	x.leaks.addSecrets(x.user, password)
	x.admin = x.server.Client(t)
	x.acl("reset", "on", ">"+password, "~lw:*", "resetchannels", "&lw:*", "+@all")
	x.store = x.open(password)
	x.client = newClient(t, x.store, x.options())
	return x
}

func (x *leakTest) acl(rules ...any) {
	require.NoError(x.t, x.admin.Do(x.t.Context(), testredis.ChannelRules(append([]any{"acl", "setuser", x.user}, rules...)...)...).Err())
}

// open returns a store of the user, configured by a URL.
func (x *leakTest) open(password string) recordingStore {
	o, err := redis.ParseURL(fmt.Sprintf("redis://%s:%s@%s/0", x.user, password, x.server.Addr()))
	require.NoError(x.t, err)
	rdb := redis.NewClient(o)
	x.t.Cleanup(func() { _ = rdb.Close() })
	s, err := redisstore.New(rdb, &redisstore.Options{Timeout: time.Second})
	require.NoError(x.t, err)
	x.t.Cleanup(func() { _ = s.Close() })
	x.leaks.record(s)
	return recordingStore{Store: s, leaks: x.leaks}
}

func (x *leakTest) options() *lock.Options {
	return &lock.Options{
		Terms:  lock.Terms{TTL: leakTTL},
		Logger: x.leaks.logger(),
		Hooks: &lock.Hooks{
			BatchDone: func(b renewal.BatchInfo) { x.leaks.record(b, b.Err) },
			Lost: func(_ context.Context, l lock.HookInfo) {
				x.leaks.record(l, &l, l.Err)
				x.lostCount.mu.Lock()
				defer x.lostCount.mu.Unlock()
				x.lostCount.n++
			},
		},
	}
}

func (x *leakTest) lock(key string) *lock.Held {
	h, err := x.client.Mutex(key).Lock(x.t.Context())
	require.NoError(x.t, err)
	x.leaks.record(h, x.client.Mutex(key))
	return h
}

// awaitLoss waits for the loss of a lock.
func (x *leakTest) awaitLoss(h *lock.Held) {
	select {
	case <-h.Done():
	case <-time.After(20 * time.Second):
		require.Fail(x.t, "the lock was not lost")
	}
	ctx, cancel := h.Context(x.t.Context())
	defer cancel()
	x.leaks.record(h, h.Err(), h.Unlock(x.t.Context()), h.Unlock(x.t.Context()), context.Cause(ctx))
}

func (x *leakTest) normalUse() {
	h := x.lock("regular")
	_, err := x.client.Mutex("regular").TryLock(x.t.Context())
	require.ErrorIs(x.t, err, lock.ErrNotAcquired)
	info, errInspect := x.store.Inspect(x.t.Context(), "regular")
	x.leaks.record(err, info, errInspect, x.client, h.Handles(), x.options().Terms, x.client.Stats())
	time.Sleep(leakTTL) // for some renewals
	x.leaks.record(h.Unlock(x.t.Context()), h.Unlock(x.t.Context()))
	func() {
		defer func() { x.leaks.record(fmt.Sprint(recover()), string(debug.Stack())) }()
		_ = lock.Do(x.t.Context(), x.client.Mutex("panic"), func(ctx context.Context, _ *lock.Held) error { panic(fmt.Sprintf("%v %+v %#v", h, x.client, ctx)) })
	}()
}

func (x *leakTest) losses() {
	deleted, forced := x.lock("deleted"), x.lock("forced")
	require.NoError(x.t, x.admin.Del(x.t.Context(), "lw:{deleted}").Err())
	x.leaks.record(x.store.ForceRelease(x.t.Context(), "forced"), x.store.ForceRelease(x.t.Context(), "nothing"))
	x.awaitLoss(deleted)
	x.awaitLoss(forced)
}

func (x *leakTest) waiting() {
	h := x.lock("waited for")
	ctx, cancel := context.WithTimeout(x.t.Context(), leakTTL/2)
	defer cancel()
	_, err := x.client.Mutex("waited for").Lock(ctx)
	x.leaks.record(err, h.Unlock(x.t.Context()), x.client.Stats())
}

func (x *leakTest) wrongType() {
	require.NoError(x.t, x.admin.RPush(x.t.Context(), "lw:{list}", "x").Err())
	require.NoError(x.t, x.admin.Set(x.t.Context(), "lw:{token}:t", "x", 0).Err())
	for _, key := range []string{"list", "token", "}bad", ""} {
		_, err := x.client.Mutex(key).Lock(x.t.Context())
		require.Error(x.t, err)
		_, errInspect := x.store.Inspect(x.t.Context(), key)
		x.leaks.record(err, errInspect)
	}
}

func (x *leakTest) noRights() {
	h := x.lock("no rights")
	x.acl("-@all")
	x.awaitLoss(h)
	_, err := x.client.Mutex("no rights").Lock(x.t.Context())
	require.ErrorContains(x.t, err, "NOPERM")
	x.leaks.record(err)
	x.acl("+@all", "resetkeys", "~other:*")
	_, err = x.client.Mutex("no rights").TryLock(x.t.Context())
	require.ErrorContains(x.t, err, "NOPERM")
	x.leaks.record(err)
	x.acl("~lw:*")
}

func (x *leakTest) noAuth() {
	h := x.lock("no auth")
	wrong := "wrong-" + rand.Text()
	x.leaks.addSecrets(wrong)
	c := newClient(x.t, x.open(wrong), x.options())
	_, err := c.Mutex("k").Lock(x.t.Context())
	require.ErrorContains(x.t, err, "WRONGPASS")
	x.leaks.record(err)
	changed := "changed-" + rand.Text()
	x.leaks.addSecrets(changed)
	x.acl("resetpass", ">"+changed)
	require.NoError(x.t, x.admin.Do(x.t.Context(), "client", "kill", "user", x.user).Err())
	x.awaitLoss(h)
	x.client = newClient(x.t, x.open(changed), x.options())
}

func (x *leakTest) serverHangs() {
	h := x.lock("hang")
	require.NoError(x.t, x.server.Stop())
	x.awaitLoss(h)
	_, err := x.client.Mutex("hang").TryLock(x.t.Context())
	require.Error(x.t, err)
	x.leaks.record(err, x.client.Stats())
	require.NoError(x.t, x.server.Cont())
}

func (x *leakTest) serverDies() {
	h := x.lock("gone")
	x.server.Kill()
	x.awaitLoss(h)
	_, err := x.client.Mutex("gone").TryLock(x.t.Context())
	require.Error(x.t, err)
	x.leaks.record(err)
	require.NoError(x.t, x.server.Restart())
	x.acl("reset", "on", "nopass", "~lw:*", "resetchannels", "&lw:*", "+@all")
}

func (x *leakTest) clientClosed() {
	h := x.lock("closed")
	x.leaks.record(x.client.Close(x.t.Context()), x.client.Close(x.t.Context()))
	_, err := x.client.Mutex("closed").Lock(x.t.Context())
	require.ErrorIs(x.t, err, lock.ErrClosed)
	x.leaks.record(err, h, h.Err(), errors.Join(h.Err(), err), x.client, x.store.Store, x.client.Stats())
}
