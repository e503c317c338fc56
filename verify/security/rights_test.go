package security

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/redisstore"
	"github.com/leasewheel/leasewheel/verify/internal/simreport"
)

// rights returns the rights in SECURITY.md: all of them, and those for messages, without
// which the store works too.
func rights(t *testing.T) (all, signals []string) {
	t.Helper()
	text, err := os.ReadFile("../../SECURITY.md")
	require.NoError(t, err)
	_, section, ok := strings.Cut(string(text), "\n## Rights")
	require.True(t, ok)
	section, _, _ = strings.Cut(section, "\n## ")
	for row := range strings.SplitSeq(section, "\n") {
		if !strings.HasPrefix(row, "| ") {
			continue
		}
		words := regexp.MustCompile(`\+[a-z|]+`).FindAllString(row, -1)
		all = append(all, words...)
		if strings.Contains(row, "hand-overs") {
			signals = words
		}
	}
	require.Contains(t, all, "+evalsha")
	require.Len(t, signals, 4)
	slices.Sort(all)
	return slices.Compact(all), signals // some rights serve several purposes
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
	server := testredis.Start(t, "--acllog-max-len", "100000")
	return &aclServer{t: t, server: server, admin: server.Client(t)}
}

// user creates a user with these rights on the keys and channels of the store, and
// returns its client.
func (a *aclServer) user(name string, rights []string) *redis.Client {
	rule := []any{"acl", "setuser", name, "reset", "on", ">pw", "resetkeys", "~lw:*", "resetchannels", "&lw:*", "-@all"}
	for _, right := range rights {
		rule = append(rule, right)
	}
	require.NoError(a.t, a.admin.Do(a.t.Context(), testredis.ChannelRules(rule...)...).Err())
	rdb := redis.NewClient(&redis.Options{Addr: a.server.Addr(), Username: name, Password: "pw", DisableIdentity: true})
	a.t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// denied returns the commands, keys and channels that a user was refused.
func (a *aclServer) denied(name string) (objects []string) {
	log, err := a.admin.ACLLog(a.t.Context(), 100_000).Result()
	require.NoError(a.t, err)
	for _, entry := range log {
		if entry.Username == name && !slices.Contains(objects, entry.Object) {
			objects = append(objects, entry.Object)
		}
	}
	return objects
}

// TestRights checks that the rights in SECURITY.md suffice and that each is needed.
func TestRights(t *testing.T) {
	t.Parallel()
	t.Run("each_is_needed", eachRightIsNeeded)
	if simreport.IsLong() { // this takes minutes
		t.Run("they_suffice", rightsSuffice)
	}
}

// rightsSuffice runs the contract of stores as a user with exactly the rights in
// SECURITY.md, and compares 100,000 foreign keys before and after. The tests of
// redisstore do the same without foreign keys.
func rightsSuffice(t *testing.T) {
	a := newACLServer(t)
	words, _ := rights(t)
	rdb := a.user("limited", words)
	foreign := createForeignKeys(t, a.admin)
	before := foreign.digest()

	prefixes := sync.Map{}
	open := func(t *testing.T) driver.Store {
		s, prefix := newStore(t, rdb)
		prefixes.Store(s, prefix)
		return s
	}
	prefixOf := func(s driver.Store) string {
		prefix, _ := prefixes.Load(s)
		return prefix.(string)
	}
	locktest.TestStore(t, locktest.Config{
		New:      open,
		TTL:      3 * time.Second,
		Explains: true,
		Saves:    true,
		Modes:    locktest.AllModes,
		Inspects: true,
		Lists:    true,
		Delete: func(t *testing.T, s driver.Store, key string) {
			require.NoError(t, a.admin.Del(t.Context(), prefixOf(s)+"{"+key+"}").Err())
		},
		Waiting: waitingCount,
		Die: func(t *testing.T, s driver.Store, r driver.Request) {
			die(t, storeWith(t, rdb, prefixOf(s)), r)
		},
		Spoil: func(t *testing.T, s driver.Store, key string) {
			at := prefixOf(s) + "{" + key + "}"
			require.NoError(t, a.admin.Del(t.Context(), at).Err())
			require.NoError(t, a.admin.RPush(t.Context(), at, "not a lock").Err())
		},
		Spoiled: func(t *testing.T, s driver.Store, key string) bool {
			return a.admin.Type(t.Context(), prefixOf(s)+"{"+key+"}").Val() == "list"
		},
	})
	assert.Empty(t, a.denied("limited"), "a right is missing in SECURITY.md")
	assert.Equal(t, before, foreign.digest(), "a foreign key has changed")
	report.Add("contract     as a user with %d rights, next to %d foreign keys, all unchanged", len(words), len(foreign.keys))
}

func waitingCount(t *testing.T, s driver.Store, key string) int {
	info, err := s.(*redisstore.Store).Inspect(t.Context(), key)
	require.NoError(t, err)
	return info.Waiting
}

// die waits for a lock with its own store, which is then closed without releasing the
// place.
func die(t *testing.T, s *redisstore.Store, r driver.Request) {
	before := waitingCount(t, s, r.Key)
	gone := make(chan error, 1)
	go func() {
		_, err := s.Wait(context.Background(), r, func() {})
		gone <- err
	}()
	require.Eventually(t, func() bool { return waitingCount(t, s, r.Key) > before }, 10*time.Second, time.Millisecond)
	require.NoError(t, s.Close())
	require.ErrorIs(t, <-gone, lock.ErrClosed)
}

// optional are the rights that only Options.Replicas and Store.Check need. The tests of redisstore
// cover them.
var optional = []string{"+wait", "+config", "+config|get"}

// eachRightIsNeeded removes each right in turn and checks that a command is denied. It
// also checks that no foreign key changes.
func eachRightIsNeeded(t *testing.T) {
	a := newACLServer(t)
	words, _ := rights(t)
	words = slices.DeleteFunc(words, func(w string) bool { return slices.Contains(optional, w) })
	foreign := createForeignKeys(t, a.admin)
	before := foreign.digest()
	without := func(word string) {
		name := "without-" + word[1:]
		rdb := a.user(name, slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == word }))
		x := &exercise{aclServer: a, rdb: rdb, prefix: "lw:" + name + ":", ttl: 3 * time.Second}
		if !slices.Contains(words, word) {
			x.ttl = 12 * time.Second // no lease may expire on a busy machine
			assert.NoError(t, errors.Join(x.run(30*time.Second)...))
			assert.Empty(t, a.denied(name))
			return
		}
		const rounds = 6 // a busy machine may not finish each of them
		for n := 0; n < rounds && !slices.Contains(a.denied(name), word[1:]); n++ {
			x.run(5 * time.Second)
		}
		assert.Contains(t, a.denied(name), word[1:], "%s is not needed", word)
	}
	without("+eval") // before the server has the scripts
	var users sync.WaitGroup
	for _, word := range append(words, "+nothing") {
		if word != "+eval" {
			users.Go(func() { without(word) })
		}
	}
	users.Wait()
	assert.Equal(t, before, foreign.digest(), "a foreign key has changed")
	report.Add("rights       %d, each needed; %d foreign keys, all unchanged", len(words), len(foreign.keys))
}

// exercise uses every operation of a store as one user.
type exercise struct {
	*aclServer
	rdb    *redis.Client
	prefix string
	ttl    time.Duration

	mu   sync.Mutex // guards errs
	errs []error
}

func (x *exercise) check(err error, allowed ...error) {
	for _, a := range allowed {
		if errors.Is(err, a) {
			return
		}
	}
	if err != nil {
		x.mu.Lock()
		defer x.mu.Unlock()
		x.errs = append(x.errs, err)
	}
}

func (x *exercise) run(timeout time.Duration) []error {
	ctx, cancel := context.WithTimeout(x.t.Context(), timeout)
	defer cancel()
	s, err := redisstore.New(x.rdb, &redisstore.Options{Prefix: x.prefix})
	if err != nil {
		return []error{err}
	}
	defer s.Close()
	var kinds sync.WaitGroup
	for _, mode := range append(locktest.AllModes, driver.Exclusive) {
		kinds.Go(func() { x.useMode(ctx, s, mode) })
	}
	kinds.Wait()
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.errs
}

// newRequest returns a request that excludes others of the same mode.
func (x *exercise) newRequest(mode driver.Mode) driver.Request {
	r := request(mode.String())
	r.Mode, r.TTL = mode, x.ttl
	switch mode {
	case driver.Permit:
		r.Attrs = &driver.Attrs{Limit: 1}
	case driver.Members:
		r.Attrs = &driver.Attrs{Members: []string{"a", "b"}}
	}
	return r
}

// useMode uses every operation with a mode.
func (x *exercise) useMode(ctx context.Context, s *redisstore.Store, mode driver.Mode) {
	first, second := x.newRequest(mode), x.newRequest(mode)
	if mode == driver.Read {
		first.Mode = driver.Write // otherwise the second request is granted
	}
	l, err := s.Acquire(ctx, first)
	x.check(err)
	_, err = s.Acquire(ctx, second)
	x.check(err, lock.ErrNotAcquired)
	l.Request = first // even if it was not granted
	x.check(s.Renew(ctx, []driver.Lease{l, {Request: x.newRequest(mode), Token: 1}}, outcomes(2)))
	_, err = s.Inspect(ctx, first.Key)
	x.check(err)
	_, _, err = s.List(ctx, "", "")
	x.check(err)
	x.waitTwice(ctx, s, l, mode)
	x.expire(ctx, s, mode)
	gone := x.newRequest(mode)
	gone.Key = "given up"
	x.check(s.Release(ctx, driver.Lease{Request: gone, Unanswered: true}), lock.ErrNotHeld)
}

// expire deletes a lock while a waiter queues, and then force-releases it.
func (x *exercise) expire(ctx context.Context, s *redisstore.Store, mode driver.Mode) {
	first, second := x.newRequest(mode), x.newRequest(mode)
	if mode == driver.Read {
		first.Mode = driver.Write
	}
	_, err := s.Acquire(ctx, first)
	x.check(err)
	got := make(chan error, 1)
	go func() {
		_, err := s.Wait(ctx, second, func() {})
		got <- err
	}()
	time.Sleep(300 * time.Millisecond)
	x.admin.Del(ctx, x.prefix+"{"+first.Key+"}")
	x.check(<-got)
	x.check(s.ForceRelease(ctx, first.Key), lock.ErrNotHeld)
}

// waitTwice runs two waiters of two clients, so that one channel is unsubscribed while the
// other is kept. They wait for long enough to ping.
func (x *exercise) waitTwice(ctx context.Context, s *redisstore.Store, l driver.Lease, mode driver.Mode) {
	leases, errs := make(chan driver.Lease, 2), make(chan error, 2)
	for range 2 {
		go func() {
			l, err := s.Wait(ctx, x.newRequest(mode), func() {})
			leases <- l
			errs <- err
		}()
	}
	for end := time.Now().Add(1500 * time.Millisecond); time.Now().Before(end) && len(errs) < 2; {
		time.Sleep(10 * time.Millisecond)
	}
	x.check(s.Release(ctx, l))
	for range 2 {
		l := <-leases
		if err := <-errs; err != nil {
			x.check(err)
			continue
		}
		time.Sleep(50 * time.Millisecond) // for the unsubscribe
		x.check(s.Release(ctx, l))
	}
}

// TestWithoutSignals: waiters without the rights for messages get the lock by polls.
func TestWithoutSignals(t *testing.T) {
	t.Parallel()
	a := newACLServer(t)
	words, signals := rights(t)
	quiet := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return slices.Contains(signals, w) })
	s, _ := newStore(t, a.user("quiet", quiet))
	holder, waiter := newClient(t, s, nil), newClient(t, withoutClose{s, s}, &lock.Options{Terms: lock.Terms{TTL: 3 * time.Second}})
	for i := range 2 {
		key := fmt.Sprint("k", i)
		h, err := holder.Mutex(key).Lock(t.Context())
		require.NoError(t, err)
		got := make(chan error, 1)
		go func() {
			h, err := waiter.Mutex(key).Lock(t.Context())
			if err == nil {
				err = h.Unlock(t.Context())
			}
			got <- err
		}()
		require.Eventually(t, func() bool { return waitingCount(t, s, key) == 1 }, 10*time.Second, time.Millisecond)
		require.NoError(t, h.Unlock(t.Context()))
		require.NoError(t, <-got)
	}
}
