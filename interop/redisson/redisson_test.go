package redisson

import (
	"context"
	_ "embed" // pom.xml has the version
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/logging"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/redisson"
)

// holdEnv makes this process hold a lock, given as "address key", until it is killed.
const holdEnv = "INTEROP_HOLD"

func TestMain(m *testing.M) {
	logging.Disable() // go-redis prints each failed dial
	if hold := os.Getenv(holdEnv); hold != "" {
		holdForever(hold)
	}
	say("%s, %s", redissonVersion(), runtime.Version())
	code := m.Run()
	if java.folder != "" {
		_ = os.RemoveAll(java.folder)
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			println(err.Error())
			code = 1
		}
	}
	os.Exit(code)
}

//go:embed java/pom.xml
var pom string

// redissonVersion returns the version that pom.xml names.
func redissonVersion() string {
	return "Redisson " + regexp.MustCompile(`<artifactId>redisson</artifactId>\s*<version>(.*)</version>`).FindStringSubmatch(pom)[1]
}

// say prints a line for make interop.
func say(format string, args ...any) { fmt.Printf(format+"\n", args...) }

// holdForever locks and prints a line once it has the lock.
func holdForever(what string) {
	addr, key, _ := strings.Cut(what, " ")
	store, err := redisson.New(redis.NewClient(&redis.Options{Addr: addr}), nil)
	if err != nil {
		panic(err)
	}
	c, err := lock.New(store, &lock.Options{Terms: lock.Terms{TTL: watchdog}})
	if err != nil {
		panic(err)
	}
	if _, err := c.Mutex(key).Lock(context.Background()); err != nil {
		panic(err)
	}
	_, _ = os.Stdout.WriteString("locked\n")
	select {}
}

// watchdog is the TTL of locks without a lease time, in both languages.
const watchdog = 3 * time.Second

// pair is a server with a process of Redisson and a store of each kind.
type pair struct {
	*testing.T
	java   *peer
	server *testredis.Server
	rdb    *redis.Client
	stores map[string]*redisson.Store
	goes   map[string]*lock.Client // by the kinds of the peer
}

func newPair(t *testing.T) *pair {
	server := testredis.Start(t)
	p := &pair{T: t, server: server, rdb: server.Client(t), stores: make(map[string]*redisson.Store), goes: make(map[string]*lock.Client)}
	p.java = startPeer(t, "single:"+server.Addr(), watchdog)
	for name, kind := range map[string]redisson.Kind{"lock": redisson.Lock, "fair": redisson.FairLock, "fenced": redisson.FencedLock} {
		p.stores[name], p.goes[name] = newClient(t, p.rdb, &redisson.Options{Kind: kind})
	}
	p.goes["read"], p.goes["write"] = p.goes["lock"], p.goes["lock"]
	return p
}

func newClient(t *testing.T, rdb redis.UniversalClient, o *redisson.Options) (*redisson.Store, *lock.Client) {
	t.Helper()
	s, err := redisson.New(rdb, o)
	require.NoError(t, err)
	c, err := lock.New(s, &lock.Options{Terms: lock.Terms{TTL: watchdog}})
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close(context.Background()) })
	return s, c
}

// locker returns the lock of a kind of the peer.
func (p *pair) locker(kind, key string) lock.Locker {
	switch kind {
	case "read":
		return p.goes[kind].RWMutex(key).RLocker()
	case "write":
		return p.goes[kind].RWMutex(key)
	}
	return p.goes[kind].Mutex(key)
}

func (p *pair) lock(kind, key string) *lock.Held {
	p.Helper()
	h, err := p.locker(kind, key).Lock(p.Context())
	require.NoError(p, err)
	return h
}

func (p *pair) unlock(h *lock.Held) {
	p.Helper()
	require.NoError(p, h.Unlock(p.Context()))
}

// refused expects that TryLock finds the lock taken.
func (p *pair) refused(kind, key string) {
	p.Helper()
	_, err := p.locker(kind, key).TryLock(p.Context())
	require.ErrorIs(p, err, lock.ErrNotAcquired)
}

func TestRedisson(t *testing.T) {
	p := newPair(t)
	run := func(name string, f func(p *pair)) {
		t.Run(name, func(t *testing.T) {
			q := *p
			q.T, q.java.t = t, t
			f(&q)
		})
	}
	run("each side sees the locks of the other", eachSideExcludesTheOther)
	run("readers and writers", readersAndWriters)
	run("hand-over", handOvers)
	run("fencing tokens rise on both sides", fencingTokens)
	run("the watchdogs are seen", watchdogs)
	run("force unlock", forceUnlock)
	run("a fair lock serves both sides in order", fairOrder)
	run("permits", semaphore)
	run("latch", latch)
	run("5000 contended rounds", func(p *pair) { p.contend("lock", 2500, p.locker("lock", "contended lock")) })
	for _, kind := range []string{"fair", "fenced", "write"} {
		run("500 contended rounds of "+kind, func(p *pair) { p.contend(kind, 250, p.locker(kind, "contended "+kind)) })
	}
	run("lost replies", lostReplies)
	run("a killed Go process", killedGo)
	run("a killed JVM", killedJVM) // the last one, because the peer has ended then
}

func eachSideExcludesTheOther(p *pair) {
	for _, kind := range []string{"lock", "fair", "fenced", "write"} {
		key := "exclude " + kind
		h := p.lock(kind, key)
		assert.Equal(p, "false", p.java.do("a", "try", kind, key), kind)
		assert.Equal(p, "true", p.java.do("a", "locked", kind, key), kind)
		p.unlock(h)
		assert.Equal(p, "true", p.java.do("a", "try", kind, key), kind)
		p.refused(kind, key)
		p.java.do("a", "unlock", kind, key)
		p.unlock(p.lock(kind, key))
	}
}

func readersAndWriters(p *pair) {
	h := p.lock("read", "rw")
	p.java.do("a", "lock", "read", "rw", "-1")
	assert.Equal(p, "false", p.java.do("b", "try", "write", "rw"))
	p.refused("write", "rw")
	p.unlock(h)
	p.refused("write", "rw")
	p.java.do("a", "unlock", "read", "rw")
	w := p.lock("write", "rw")
	assert.Equal(p, "false", p.java.do("a", "try", "read", "rw"))
	r, err := p.goes["write"].RWMutex("rw").Downgrade(p.Context(), w)
	require.NoError(p, err)
	assert.Equal(p, "true", p.java.do("a", "try", "read", "rw"), "the writer became a reader")
	p.unlock(r)
	p.java.do("a", "unlock", "read", "rw")
	p.java.do("a", "lock", "write", "rw", "-1")
	p.refused("read", "rw")
	p.java.do("a", "unlock", "write", "rw")
	keys, err := p.rdb.Keys(p.Context(), "*rw*").Result()
	require.NoError(p, err)
	assert.Empty(p, keys)
}

// handOvers measures how long a waiter of the other side takes to notice a release.
func handOvers(p *pair) {
	for _, kind := range []string{"lock", "fair", "fenced", "write"} {
		const rounds = 30
		var toJava, toGo []time.Duration
		for range rounds {
			h := p.lock(kind, "hand")
			acquired := p.java.start("a", "lock", kind, "hand", "-1")
			p.awaitWaiter(kind, "hand")
			p.java.pending(acquired)
			released := time.Now()
			p.unlock(h)
			toJava = append(toJava, microTime(p, p.java.await(acquired, "lock")).Sub(released))

			got := make(chan time.Time, 1)
			handle := make(chan *lock.Held, 1)
			go func() {
				h, err := p.locker(kind, "hand").Lock(p.Context())
				got <- time.Now()
				assert.NoError(p, err)
				handle <- h
			}()
			require.Eventually(p, func() bool { return p.goes[kind].Stats().Waiting == 1 && p.subscribed(kind, "hand", 1) }, time.Minute, time.Millisecond)
			before := microTime(p, p.java.do("a", "unlock", kind, "hand"))
			toGo = append(toGo, (<-got).Sub(before))
			p.unlock(<-handle)
		}
		for to, took := range map[string][]time.Duration{"Go to Java": toJava, "Java to Go": toGo} {
			slices.Sort(took)
			say("%s, %s: median %v, maximum %v, of %d hand-overs", kind, to, took[rounds/2], took[rounds-1], rounds)
			assert.Less(p, took[rounds-1], watchdog, "%s: %s: the message must wake the waiter before the lease ends", kind, to)
		}
	}
}

// awaitWaiter waits until the peer has subscribed and asked once more.
func (p *pair) awaitWaiter(kind, key string) {
	p.Helper()
	require.Eventually(p, func() bool { return p.subscribed(kind, key, 1) }, time.Minute, time.Millisecond)
}

// subscribed reports whether somebody is subscribed to the channel of a lock.
func (p *pair) subscribed(kind, key string, least int64) bool {
	pattern := "redisson_lock__channel:{" + key + "}*"
	if kind == "write" {
		pattern = "redisson_rwlock:{" + key + "}"
	}
	channels, err := p.rdb.PubSubChannels(p.Context(), pattern).Result()
	return err == nil && int64(len(channels)) >= least
}

func microTime(t testing.TB, text string) time.Time {
	t.Helper()
	n, err := strconv.ParseInt(text, 10, 64)
	require.NoError(t, err)
	return time.UnixMicro(n)
}

func fencingTokens(p *pair) {
	var last uint64
	for range 10 {
		h := p.lock("fenced", "token")
		assert.Greater(p, h.Token(), last)
		last = h.Token()
		p.unlock(h)
		token, err := strconv.ParseUint(p.java.do("a", "token", "token"), 10, 64)
		require.NoError(p, err)
		assert.Greater(p, token, last)
		last = token
		p.java.do("a", "unlock", "fenced", "token")
	}
}

// watchdogs holds a lock on each side for longer than its TTL.
func watchdogs(p *pair) {
	kinds := []string{"lock", "fair", "fenced", "read", "write"}
	held := make(map[string]*lock.Held)
	for _, kind := range kinds {
		held[kind] = p.lock(kind, "of Go "+kind)
		p.java.do("a", "lock", kind, "of Java "+kind, "-1")
	}
	time.Sleep(watchdog * 2)
	for _, kind := range kinds {
		other := strings.ReplaceAll(kind, "read", "write")
		assert.True(p, held[kind].Valid(), kind)
		assert.Equal(p, "false", p.java.do("b", "try", other, "of Go "+kind), kind)
		p.refused(other, "of Java "+kind)
		p.unlock(held[kind])
		p.java.do("a", "unlock", kind, "of Java "+kind)
	}
}

func forceUnlock(p *pair) {
	for _, kind := range []string{"lock", "fair", "fenced", "write"} {
		h := p.lock(kind, "force")
		assert.Equal(p, "true", p.java.do("a", "force", kind, "force"), kind)
		<-h.Done()
		require.ErrorIs(p, h.Err(), lock.ErrLost, kind)
		require.ErrorIs(p, h.Unlock(p.Context()), lock.ErrLost, kind)

		p.java.do("a", "lock", kind, "force", "-1")
		require.NoError(p, p.goes[kind].ForceRelease(p.Context(), "force"), kind)
		p.unlock(p.lock(kind, "force"))
		a := <-p.java.start("a", "unlock", kind, "force")
		if kind == "fair" { // unlock of a free RFairLock is no error in Redisson
			assert.Equal(p, "ok", a.kind, a.text)
			continue
		}
		assert.Equal(p, "error", a.kind, "%s: the peer does not hold it: %s", kind, a.text)
	}
}

// fairOrder queues waiters of both sides by turns. They must be served in that order.
func fairOrder(p *pair) {
	holder := p.lock("fair", "order")
	const each = 4
	waiting := func(n int) {
		require.Eventually(p, func() bool {
			info, err := p.goes["fair"].Inspect(p.Context(), "order")
			return err == nil && info.Waiting == n
		}, time.Minute, time.Millisecond)
	}
	var mu sync.Mutex
	var order []int
	note := func(i int) {
		mu.Lock()
		defer mu.Unlock()
		order = append(order, i)
	}
	var wg sync.WaitGroup
	for i := range 2 * each {
		if i%2 == 0 {
			_, c := newClient(p.T, p.rdb, &redisson.Options{Kind: redisson.FairLock}) // one client has one place
			wg.Go(func() {
				h, err := c.Mutex("order").Lock(p.Context())
				if assert.NoError(p, err) {
					note(i)
					assert.NoError(p, h.Unlock(p.Context()))
				}
			})
		} else {
			thread := "fair " + strconv.Itoa(i)
			acquired := p.java.start(thread, "lock", "fair", "order", "-1")
			wg.Go(func() {
				if a := <-acquired; assert.Equal(p, "ok", a.kind, a.text) {
					note(i)
					<-p.java.start(thread, "unlock", "fair", "order")
				}
			})
		}
		waiting(i + 1)
	}
	p.unlock(holder)
	wg.Wait()
	assert.Equal(p, []int{0, 1, 2, 3, 4, 5, 6, 7}, order)
}

func semaphore(p *pair) {
	s := p.stores["lock"].Semaphore("permits")
	set, err := s.TrySetPermits(p.Context(), 2)
	require.NoError(p, err)
	require.True(p, set)
	assert.Equal(p, "false", p.java.do("a", "permits", "permits", "5"))
	mine, err := s.TryAcquire(p.Context(), 1, time.Minute)
	require.NoError(p, err)
	theirs := p.java.do("a", "acquire", "permits", "60000")
	assert.Equal(p, "null", p.java.do("a", "tryacquire", "permits"))
	_, err = s.TryAcquire(p.Context(), 1, time.Minute)
	require.ErrorIs(p, err, driver.ErrNotAcquired)
	waiting := p.java.start("b", "acquire", "permits", "60000")
	require.Eventually(p, func() bool {
		n, err := p.rdb.PubSubNumSub(p.Context(), "redisson_sc:{permits}").Result()
		return err == nil && n["redisson_sc:{permits}"] > 0
	}, time.Minute, time.Millisecond)
	require.NoError(p, s.Release(p.Context(), mine...))
	second := p.java.await(waiting, "acquire")
	got := make(chan error, 1)
	go func() {
		_, err := s.Acquire(p.Context(), 1, time.Minute)
		got <- err
	}()
	p.java.do("a", "release", "permits", theirs)
	require.NoError(p, <-got)
	require.NoError(p, s.Release(p.Context(), second), "either side releases by the id")
	assert.Equal(p, "1", p.java.do("a", "available", "permits"))
}

func latch(p *pair) {
	l := p.stores["lock"].Latch("latch")
	set, err := l.TrySetCount(p.Context(), 2)
	require.NoError(p, err)
	require.True(p, set)
	assert.Equal(p, "2", p.java.do("a", "count", "latch"))
	open := p.java.start("a", "await", "latch")
	got := make(chan error, 1)
	go func() { got <- l.Await(p.Context()) }()
	require.NoError(p, l.CountDown(p.Context()))
	p.java.pending(open)
	p.java.do("b", "countdown", "latch")
	require.NoError(p, <-got)
	assert.Equal(p, "open", p.java.await(open, "await"))

	assert.Equal(p, "true", p.java.do("b", "setcount", "latch", "1"))
	open = p.java.start("a", "await", "latch")
	go func() { got <- l.Await(p.Context()) }()
	require.NoError(p, l.CountDown(p.Context()))
	require.NoError(p, <-got)
	p.java.await(open, "await")
}

// contend lets two threads of each side add to a counter that is not atomic.
func (p *pair) contend(kind string, rounds int, l lock.Locker) {
	key, counter := "contended "+kind, "counter "+kind
	start := time.Now()
	done := []chan answer{
		p.java.start("a", "contend", kind, key, counter, strconv.Itoa(rounds/2)),
		p.java.start("b", "contend", kind, key, counter, strconv.Itoa(rounds/2)),
	}
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for range rounds / 2 {
				if !p.add(l, counter) {
					return
				}
			}
		})
	}
	wg.Wait()
	for _, c := range done {
		p.java.await(c, "contend")
	}
	say("%d contended rounds in %v", 2*rounds, time.Since(start))
	p.counted(counter, 2*rounds)
}

func (p *pair) counted(counter string, want int) {
	p.Helper()
	n, err := p.rdb.Get(p.Context(), counter).Int()
	require.NoError(p, err)
	assert.Equal(p, want, n, "two holders at one time lose an addition")
}

// add adds 1 to a counter within the lock.
func (p *pair) add(l lock.Locker, counter string) bool {
	h, err := l.Lock(p.Context())
	if !assert.NoError(p, err) {
		return false
	}
	p.addHeld(counter)
	return assert.NoError(p, h.Unlock(p.Context()))
}

func (p *pair) addHeld(counter string) {
	n, err := p.rdb.Get(p.Context(), counter).Int()
	if !errors.Is(err, redis.Nil) {
		assert.NoError(p, err)
	}
	assert.NoError(p, p.rdb.Set(p.Context(), counter, n+1, 0).Err())
}

// lostReplies resets the connections of the Go side while both sides contend.
func lostReplies(p *pair) {
	proxy := testredis.StartProxy(p, p.server)
	_, c := newClient(p.T, proxy.Client(p), nil)
	const rounds = 400
	done := p.java.start("a", "contend", "lock", "lost", "counter lost", strconv.Itoa(rounds))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		ticker := time.NewTicker(20 * time.Millisecond)
		defer ticker.Stop()
		for {
			select {
			case <-stop:
				return
			case <-ticker.C:
				proxy.Reset()
			}
		}
	})
	added, failures := 0, 0
	for added < rounds {
		h, err := c.Mutex("lost").Lock(p.Context())
		if err != nil {
			failures++
			continue
		}
		p.addHeld("counter lost")
		added++
		if err := h.Unlock(p.Context()); err != nil {
			failures++ // the client releases it in the background
		}
	}
	close(stop)
	wg.Wait()
	p.java.await(done, "contend")
	say("%d calls failed while replies were lost", failures)
	p.counted("counter lost", 2*rounds)
}

// killedGo kills a Go process that holds a lock. The peer gets it when the lease ends.
func killedGo(p *pair) {
	holder := exec.Command(os.Args[0])
	holder.Env = append(os.Environ(), holdEnv+"="+p.server.Addr()+" killed")
	output, err := holder.StdoutPipe()
	require.NoError(p, err)
	require.NoError(p, holder.Start())
	line := make([]byte, len("locked\n"))
	_, err = output.Read(line)
	require.NoError(p, err)
	require.Equal(p, "locked\n", string(line))
	acquired := p.java.start("a", "lock", "lock", "killed", "-1")
	p.awaitWaiter("lock", "killed")
	p.java.pending(acquired)
	require.NoError(p, holder.Process.Kill())
	_ = holder.Wait()
	p.java.await(acquired, "lock")
	p.java.do("a", "unlock", "lock", "killed")
}

// killedJVM kills the peer while it holds locks. Go gets them when their leases end.
func killedJVM(p *pair) {
	kinds := []string{"lock", "fair", "fenced", "write"}
	for _, kind := range kinds {
		p.java.do("a", "lock", kind, "killed "+kind, "-1")
	}
	p.java.kill()
	for _, kind := range kinds {
		p.refused(kind, "killed "+kind)
	}
	for _, kind := range kinds {
		p.unlock(p.lock(kind, "killed "+kind))
	}
}
