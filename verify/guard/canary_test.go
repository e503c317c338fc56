package guard

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
	"github.com/leasewheel/leasewheel/lock/redisstore"
	"github.com/leasewheel/leasewheel/renewal"
)

// canary collects all that a program might print, and all that it must not.
type canary struct {
	t testing.TB

	mu      sync.Mutex // guards all below
	printed bytes.Buffer
	looks   int
	secrets []string
}

// Write implements io.Writer, for logs.
func (c *canary) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.looks++
	return c.printed.Write(p)
}

// Printf is that of a logger of go-redis.
func (c *canary) Printf(_ context.Context, format string, args ...any) {
	fmt.Fprintf(c, format+"\n", args...)
}

// logger logs at every level, each record in both formats.
func (c *canary) logger() *slog.Logger {
	o := &slog.HandlerOptions{Level: slog.LevelDebug, AddSource: true}
	return slog.New(slog.NewMultiHandler(slog.NewTextHandler(c, o), slog.NewJSONHandler(c, o)))
}

// look prints values in all ways.
func (c *canary) look(values ...any) {
	for _, v := range values {
		if err, ok := v.(error); ok {
			c.chain(err)
			continue
		}
		c.print(v)
	}
}

func (c *canary) print(v any) {
	fmt.Fprintf(c, "%v\n%+v\n%#v\n%s\n%q\n", v, v, v, v, v)
	if text, err := json.Marshal(v); err == nil {
		fmt.Fprintln(c, string(text))
	}
	c.logger().Debug("look", slog.Any("value", v))
}

// chain looks at an error and at all that it wraps.
func (c *canary) chain(err error) {
	if err == nil {
		return
	}
	c.print(err)
	switch e := err.(type) { //nolint:errorlint // each by itself
	case interface{ Unwrap() error }:
		c.chain(e.Unwrap())
	case interface{ Unwrap() []error }:
		for _, inner := range e.Unwrap() {
			c.chain(inner)
		}
	}
}

// secret adds what must not be printed.
func (c *canary) secret(texts ...string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.secrets = append(c.secrets, texts...)
}

func (c *canary) sings() {
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

// telltale is a store that tells the canary of its owners.
type telltale struct {
	*redisstore.Store
	canary *canary
}

// Acquire implements lock.Store.
func (s telltale) Acquire(ctx context.Context, r lock.Request) (lock.Lease, error) {
	s.tell(r.Owner)
	l, err := s.Store.Acquire(ctx, r)
	s.canary.look(l, r, err)
	return l, err
}

// Wait implements lock.Waiter.
func (s telltale) Wait(ctx context.Context, r lock.Request) (lock.Lease, error) {
	s.tell(r.Owner)
	l, err := s.Store.Wait(ctx, r)
	s.canary.look(l, r, err)
	return l, err
}

// Release implements lock.Store.
func (s telltale) Release(ctx context.Context, l lock.Lease) error {
	err := s.Store.Release(ctx, l)
	s.canary.look(l, err)
	return err
}

func (s telltale) tell(owner string) {
	client, _, _ := strings.Cut(owner, ":")
	s.canary.secret(owner, client)
}

// TestSecretsAreNotPrinted goes through all kinds of trouble with a user whose
// name and password are known, and prints whatever can be printed.
func TestSecretsAreNotPrinted(t *testing.T) {
	x := newTrouble(t)
	for _, step := range []func(){x.regular, x.losses, x.waiting, x.wrongType, x.noRights, x.noAuth, x.hang, x.gone, x.closed} {
		step()
	}
	assert.Greater(t, x.losts.count(), 4)
	x.canary.sings()
	x.canary.mu.Lock()
	defer x.canary.mu.Unlock()
	assert.Greater(t, len(x.canary.secrets), 20)
	assert.Greater(t, x.canary.looks, 500)
	report.Add("canary       %d texts printed, %d secrets in none of them", x.canary.looks, len(x.canary.secrets))
}

// trouble is a client and its server, to which things happen.
type trouble struct {
	t      *testing.T
	canary *canary
	server *testredis.Server
	admin  *redis.Client
	user   string
	store  telltale
	client *lock.Client
	losts  *losses
}

type losses struct {
	mu sync.Mutex // guards n
	n  int
}

func (l *losses) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.n
}

const troubleTTL = 600 * time.Millisecond

func newTrouble(t *testing.T) *trouble {
	x := &trouble{t: t, canary: &canary{t: t}, server: testredis.Start(t), user: "user-" + rand.Text(), losts: new(losses)}
	redis.SetLogger(x.canary)
	logging.SetLogLevel(logging.LogLevelDebug)
	usual := slog.Default()
	slog.SetDefault(x.canary.logger())
	t.Cleanup(func() {
		slog.SetDefault(usual)
		logging.Disable()
	})
	password := "password-" + rand.Text()
	x.canary.secret(x.user, password)
	x.admin = x.server.Client(t)
	x.acl("reset", "on", ">"+password, "~lw:*", "resetchannels", "&lw:*", "+@all")
	x.store = x.open(password)
	x.client = newClient(t, x.store, x.options())
	return x
}

func (x *trouble) acl(rules ...any) {
	require.NoError(x.t, x.admin.Do(x.t.Context(), append([]any{"acl", "setuser", x.user}, rules...)...).Err())
}

// open returns a store of the user, by way of a URL.
func (x *trouble) open(password string) telltale {
	o, err := redis.ParseURL(fmt.Sprintf("redis://%s:%s@%s/0", x.user, password, x.server.Addr()))
	require.NoError(x.t, err)
	rdb := redis.NewClient(o)
	x.t.Cleanup(func() { _ = rdb.Close() })
	s, err := redisstore.New(rdb, &redisstore.Options{Timeout: time.Second})
	require.NoError(x.t, err)
	x.t.Cleanup(func() { _ = s.Close() })
	x.canary.look(s)
	return telltale{Store: s, canary: x.canary}
}

func (x *trouble) options() *lock.Options {
	return &lock.Options{
		Terms:  lock.Terms{TTL: troubleTTL},
		Logger: x.canary.logger(),
		Renewal: renewal.Options{Hooks: &renewal.Hooks{
			BatchDone: func(b renewal.BatchInfo) { x.canary.look(b, b.Err) },
			Lost: func(l renewal.LostInfo) {
				x.canary.look(l, &l, l.Lease, l.Err)
				x.losts.mu.Lock()
				defer x.losts.mu.Unlock()
				x.losts.n++
			},
		}},
	}
}

func (x *trouble) lock(key string) *lock.Held {
	h, err := x.client.Mutex(key).Lock(x.t.Context())
	require.NoError(x.t, err)
	x.canary.look(h, x.client.Mutex(key))
	return h
}

// lost waits for the loss of a lock.
func (x *trouble) lost(h *lock.Held) {
	select {
	case <-h.Done():
	case <-time.After(20 * time.Second):
		require.Fail(x.t, "the lock was not lost")
	}
	ctx, cancel := h.Context(x.t.Context())
	defer cancel()
	x.canary.look(h, h.Err(), h.Unlock(x.t.Context()), h.Unlock(x.t.Context()), context.Cause(ctx))
}

func (x *trouble) regular() {
	h := x.lock("regular")
	_, err := x.client.Mutex("regular").TryLock(x.t.Context())
	require.ErrorIs(x.t, err, lock.ErrNotAcquired)
	info, errInspect := x.store.Inspect(x.t.Context(), "regular")
	x.canary.look(err, info, errInspect, x.client, h.Members(), x.options().Terms, x.client.Stats())
	time.Sleep(troubleTTL) // renewals
	x.canary.look(h.Unlock(x.t.Context()), h.Unlock(x.t.Context()))
	func() {
		defer func() { x.canary.look(fmt.Sprint(recover()), string(debug.Stack())) }()
		_ = lock.Do(x.t.Context(), x.client.Mutex("panic"), func(ctx context.Context) error { panic(fmt.Sprintf("%v %+v %#v", h, x.client, ctx)) })
	}()
}

func (x *trouble) losses() {
	deleted, forced := x.lock("deleted"), x.lock("forced")
	require.NoError(x.t, x.admin.Del(x.t.Context(), "lw:{deleted}").Err())
	x.canary.look(x.store.ForceRelease(x.t.Context(), "forced"), x.store.ForceRelease(x.t.Context(), "nothing"))
	x.lost(deleted)
	x.lost(forced)
}

func (x *trouble) waiting() {
	h := x.lock("waited for")
	ctx, cancel := context.WithTimeout(x.t.Context(), troubleTTL/2)
	defer cancel()
	_, err := x.client.Mutex("waited for").Lock(ctx)
	x.canary.look(err, h.Unlock(x.t.Context()), x.client.Stats())
}

func (x *trouble) wrongType() {
	require.NoError(x.t, x.admin.RPush(x.t.Context(), "lw:{list}", "x").Err())
	require.NoError(x.t, x.admin.Set(x.t.Context(), "lw:{token}:t", "x", 0).Err())
	for _, key := range []string{"list", "token", "}bad", ""} {
		_, err := x.client.Mutex(key).Lock(x.t.Context())
		require.Error(x.t, err)
		_, errInspect := x.store.Inspect(x.t.Context(), key)
		x.canary.look(err, errInspect)
	}
}

func (x *trouble) noRights() {
	h := x.lock("no rights")
	x.acl("-@all")
	x.lost(h)
	_, err := x.client.Mutex("no rights").Lock(x.t.Context())
	require.ErrorContains(x.t, err, "NOPERM")
	x.canary.look(err)
	x.acl("+@all", "resetkeys", "~other:*")
	_, err = x.client.Mutex("no rights").TryLock(x.t.Context())
	require.ErrorContains(x.t, err, "NOPERM")
	x.canary.look(err)
	x.acl("~lw:*")
}

func (x *trouble) noAuth() {
	h := x.lock("no auth")
	wrong := "wrong-" + rand.Text()
	x.canary.secret(wrong)
	c := newClient(x.t, x.open(wrong), x.options())
	_, err := c.Mutex("k").Lock(x.t.Context())
	require.ErrorContains(x.t, err, "WRONGPASS")
	x.canary.look(err)
	changed := "changed-" + rand.Text()
	x.canary.secret(changed)
	x.acl("resetpass", ">"+changed)
	require.NoError(x.t, x.admin.Do(x.t.Context(), "client", "kill", "user", x.user).Err())
	x.lost(h)
	x.client = newClient(x.t, x.open(changed), x.options())
}

func (x *trouble) hang() {
	h := x.lock("hang")
	require.NoError(x.t, x.server.Stop())
	x.lost(h)
	_, err := x.client.Mutex("hang").TryLock(x.t.Context())
	require.Error(x.t, err)
	x.canary.look(err, x.client.Stats())
	require.NoError(x.t, x.server.Cont())
}

func (x *trouble) gone() {
	h := x.lock("gone")
	x.server.Kill()
	x.lost(h)
	_, err := x.client.Mutex("gone").TryLock(x.t.Context())
	require.Error(x.t, err)
	x.canary.look(err)
	require.NoError(x.t, x.server.Restart())
	x.acl("reset", "on", "nopass", "~lw:*", "resetchannels", "&lw:*", "+@all")
}

func (x *trouble) closed() {
	h := x.lock("closed")
	x.canary.look(x.client.Close(x.t.Context()), x.client.Close(x.t.Context()))
	_, err := x.client.Mutex("closed").Lock(x.t.Context())
	require.ErrorIs(x.t, err, lock.ErrClosed)
	x.canary.look(err, h, h.Err(), errors.Join(h.Err(), err), x.client, x.store.Store, x.client.Stats())
}
