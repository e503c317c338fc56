package guard

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
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/redisstore"
	"github.com/leasewheel/leasewheel/verify/part"
)

// rights are those that SECURITY.md names: all of them, and those without which the
// store works, too.
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
		if strings.Contains(row, "at once") {
			signals = words
		}
	}
	require.Contains(t, all, "+evalsha")
	require.Len(t, signals, 4)
	return all, signals
}

// authority is a server that gives users rights.
type authority struct {
	t      testing.TB
	server *testredis.Server
	admin  *redis.Client
}

func newAuthority(t testing.TB) *authority {
	server := testredis.Start(t, "--acllog-max-len", "100000")
	return &authority{t: t, server: server, admin: server.Client(t)}
}

// user makes a user who may do this, with keys and channels of the store only, and
// returns its client.
func (a *authority) user(name string, rights []string) *redis.Client {
	rule := []any{"acl", "setuser", name, "reset", "on", ">pw", "resetkeys", "~lw:*", "resetchannels", "&lw:*", "-@all"}
	for _, right := range rights {
		rule = append(rule, right)
	}
	require.NoError(a.t, a.admin.Do(a.t.Context(), rule...).Err())
	rdb := redis.NewClient(&redis.Options{Addr: a.server.Addr(), Username: name, Password: "pw", DisableIdentity: true})
	a.t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// denied returns what a user was refused.
func (a *authority) denied(name string) (objects []string) {
	log, err := a.admin.ACLLog(a.t.Context(), 100_000).Result()
	require.NoError(a.t, err)
	for _, entry := range log {
		if entry.Username == name && !slices.Contains(objects, entry.Object) {
			objects = append(objects, entry.Object)
		}
	}
	return objects
}

func TestRights(t *testing.T) {
	t.Parallel()
	t.Run("none_is_too_many", noneIsTooMany)
	if part.IsLong() { // it takes minutes
		t.Run("the_contract_needs_no_more", theContractNeedsNoMore)
	}
}

// theContractNeedsNoMore runs the contract of stores as a user who has the rights of
// SECURITY.md and no more, and looks at 100,000 keys of others before and after.
// Package redisstore does as much in all runs, but for those keys.
func theContractNeedsNoMore(t *testing.T) {
	a := newAuthority(t)
	words, _ := rights(t)
	rdb := a.user("limited", words)
	foreign := plant(t, a.admin)
	before := foreign.dump()

	prefixes := sync.Map{}
	open := func(t *testing.T) lock.Store {
		s, prefix := newStore(t, rdb)
		prefixes.Store(s, prefix)
		return s
	}
	prefixOf := func(s lock.Store) string {
		prefix, _ := prefixes.Load(s)
		return prefix.(string)
	}
	locktest.TestStore(t, locktest.Config{
		New:      open,
		TTL:      3 * time.Second,
		Modes:    locktest.AllModes,
		Inspects: true,
		Delete: func(t *testing.T, s lock.Store, key string) {
			require.NoError(t, a.admin.Del(t.Context(), prefixOf(s)+"{"+key+"}").Err())
		},
		Waiting: waitingOf,
		Die: func(t *testing.T, s lock.Store, r lock.Request) {
			die(t, storeWith(t, rdb, prefixOf(s)), r)
		},
		Spoil: func(t *testing.T, s lock.Store, key string) {
			at := prefixOf(s) + "{" + key + "}"
			require.NoError(t, a.admin.Del(t.Context(), at).Err())
			require.NoError(t, a.admin.RPush(t.Context(), at, "not a lock").Err())
		},
		Spoiled: func(t *testing.T, s lock.Store, key string) bool {
			return a.admin.Type(t.Context(), prefixOf(s)+"{"+key+"}").Val() == "list"
		},
	})
	assert.Empty(t, a.denied("limited"), "the list lacks something")
	assert.Equal(t, before, foreign.dump(), "somebody else's key has changed")
	report.Add("contract     as a user with %d rights, among %d foreign keys, all as before", len(words), len(foreign.keys))
}

func waitingOf(t *testing.T, s lock.Store, key string) int {
	info, err := s.(*redisstore.Store).Inspect(t.Context(), key)
	require.NoError(t, err)
	return info.Waiting
}

// die waits for a lock with a store of its own, which then goes and gives nothing
// back.
func die(t *testing.T, s *redisstore.Store, r lock.Request) {
	before := waitingOf(t, s, r.Key)
	gone := make(chan error, 1)
	go func() {
		_, err := s.Wait(context.Background(), r)
		gone <- err
	}()
	require.Eventually(t, func() bool { return waitingOf(t, s, r.Key) > before }, 10*time.Second, time.Millisecond)
	require.NoError(t, s.Close())
	require.ErrorIs(t, <-gone, lock.ErrClosed)
}

// noneIsTooMany takes each right away in turn, and sees that it is missed;
// and that nothing of it all touches the keys of others.
func noneIsTooMany(t *testing.T) {
	a := newAuthority(t)
	words, _ := rights(t)
	foreign := plant(t, a.admin)
	before := foreign.dump()
	without := func(word string) {
		name := "without-" + word[1:]
		rdb := a.user(name, slices.DeleteFunc(slices.Clone(words), func(w string) bool { return w == word }))
		x := &exercise{authority: a, rdb: rdb, prefix: "lw:" + name + ":", ttl: 3 * time.Second}
		if !slices.Contains(words, word) {
			x.ttl = 12 * time.Second // nothing of its own may end on a busy machine
			assert.NoError(t, errors.Join(x.run(30*time.Second)...))
			assert.Empty(t, a.denied(name))
			return
		}
		const rounds = 6 // of which a busy machine does not get to the end
		for n := 0; n < rounds && !slices.Contains(a.denied(name), word[1:]); n++ {
			x.run(5 * time.Second)
		}
		assert.Contains(t, a.denied(name), word[1:], "%s is not needed", word)
	}
	without("+eval") // before the server knows the scripts
	var users sync.WaitGroup
	for _, word := range append(words, "+nothing") {
		if word != "+eval" {
			users.Go(func() { without(word) })
		}
	}
	users.Wait()
	assert.Equal(t, before, foreign.dump(), "somebody else's key has changed")
	report.Add("rights       %d, each one needed; %d foreign keys, all as before", len(words), len(foreign.keys))
}

// exercise does all that is done with locks, as one user.
type exercise struct {
	*authority
	rdb    *redis.Client
	prefix string
	ttl    time.Duration

	mu   sync.Mutex // guards errs
	errs []error
}

func (x *exercise) note(err error, allowed ...error) {
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

func (x *exercise) run(patience time.Duration) []error {
	ctx, cancel := context.WithTimeout(x.t.Context(), patience)
	defer cancel()
	s, err := redisstore.New(x.rdb, &redisstore.Options{Prefix: x.prefix})
	if err != nil {
		return []error{err}
	}
	defer s.Close()
	var kinds sync.WaitGroup
	for _, mode := range append(locktest.AllModes, lock.Exclusive) {
		kinds.Go(func() { x.kind(ctx, s, mode) })
	}
	kinds.Wait()
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.errs
}

// asked returns a request of a mode, that no two can be granted together.
func (x *exercise) asked(mode lock.Mode) lock.Request {
	r := request(mode.String())
	r.Mode, r.TTL = mode, x.ttl
	switch mode {
	case lock.Permit:
		r.Extra = &lock.Extra{Limit: 1}
	case lock.Members:
		r.Extra = &lock.Extra{Members: []string{"a", "b"}}
	}
	return r
}

// kind does all that is done with locks of a mode.
func (x *exercise) kind(ctx context.Context, s *redisstore.Store, mode lock.Mode) {
	first, second := x.asked(mode), x.asked(mode)
	if mode == lock.Read {
		first.Mode = lock.Write // or else nobody has to wait
	}
	l, err := s.Acquire(ctx, first)
	x.note(err)
	_, err = s.Acquire(ctx, second)
	x.note(err, lock.ErrNotAcquired)
	l.Request = first // also if it was not granted
	x.note(s.Renew(ctx, []lock.Lease{l, {Request: x.asked(mode), Token: 1}}, outcomes(2)))
	_, err = s.Inspect(ctx, first.Key)
	x.note(err)
	x.waiters(ctx, s, l, mode)
	x.lapse(ctx, s, mode)
	gone := x.asked(mode)
	gone.Key = "given up"
	x.note(s.Release(ctx, lock.Lease{Request: gone, Unanswered: true}), lock.ErrNotHeld)
}

// lapse lets a lock end while another waits for it, and takes it away from that one.
func (x *exercise) lapse(ctx context.Context, s *redisstore.Store, mode lock.Mode) {
	first, second := x.asked(mode), x.asked(mode)
	if mode == lock.Read {
		first.Mode = lock.Write
	}
	_, err := s.Acquire(ctx, first)
	x.note(err)
	got := make(chan error, 1)
	go func() {
		_, err := s.Wait(ctx, second)
		got <- err
	}()
	time.Sleep(300 * time.Millisecond)
	x.admin.Del(ctx, x.prefix+"{"+first.Key+"}")
	x.note(<-got)
	x.note(s.ForceRelease(ctx, first.Key), lock.ErrNotHeld)
}

// waiters are two, of two clients, so that the first channel is left while the
// other is kept, and they wait for long enough to ping.
func (x *exercise) waiters(ctx context.Context, s *redisstore.Store, l lock.Lease, mode lock.Mode) {
	leases, errs := make(chan lock.Lease, 2), make(chan error, 2)
	for range 2 {
		go func() {
			l, err := s.Wait(ctx, x.asked(mode))
			leases <- l
			errs <- err
		}()
	}
	for end := time.Now().Add(1500 * time.Millisecond); time.Now().Before(end) && len(errs) < 2; {
		time.Sleep(10 * time.Millisecond)
	}
	x.note(s.Release(ctx, l))
	for range 2 {
		l := <-leases
		if err := <-errs; err != nil {
			x.note(err)
			continue
		}
		time.Sleep(50 * time.Millisecond) // for the channel that nobody needs any more
		x.note(s.Release(ctx, l))
	}
}

// TestWithoutSignals: whoever may not listen, or may not tell, is served by polls.
func TestWithoutSignals(t *testing.T) {
	t.Parallel()
	a := newAuthority(t)
	words, signals := rights(t)
	quiet := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return slices.Contains(signals, w) })
	s, _ := newStore(t, a.user("quiet", quiet))
	holder, waiter := newClient(t, s, nil), newClient(t, nobodysToClose{s, s}, &lock.Options{Terms: lock.Terms{TTL: 3 * time.Second}})
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
		require.Eventually(t, func() bool { return waitingOf(t, s, key) == 1 }, 10*time.Second, time.Millisecond)
		require.NoError(t, h.Unlock(t.Context()))
		require.NoError(t, <-got)
	}
}
