package sqlstore

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testsql"
	"github.com/leasewheel/leasewheel/lock"
)

// TestFaults checks locks under load while the server or the network fails: at each grant, the
// handle of the previous holder is no longer valid, tokens rise, no lost handle becomes valid
// again, and the load goes on afterwards.
func TestFaults(t *testing.T) {
	for _, pessimistic := range []bool{false, true} {
		for _, f := range []struct {
			name  string
			fault func(l *load)
		}{
			{"the server crashes and starts again", func(l *load) {
				l.server.Kill()
				require.NoError(l.t, l.server.Start())
			}},
			{"the server is down for longer than a TTL", func(l *load) {
				l.server.Kill()
				l.allLost()
				require.NoError(l.t, l.server.Start())
			}},
			{"the server hangs", func(l *load) {
				l.server.Pause()
				defer l.server.Continue()
				l.allLost()
			}},
			{"the connections break", func(l *load) {
				for _, p := range l.proxies {
					p.Cut()
				}
			}},
			{"the network of one client drops everything", func(l *load) {
				l.renewedBy(0)
				l.proxies[0].Block() // the other client takes over
				defer l.proxies[0].Unblock()
				l.progress()
			}},
		} {
			t.Run(fmt.Sprintf("%s/pessimistic=%v", f.name, pessimistic), func(t *testing.T) {
				t.Parallel()
				l := newLoad(t, pessimistic)
				l.progress()
				f.fault(l)
				l.progress()
				l.stop()
			})
		}
	}
}

// load is several clients that lock a few keys, through a proxy to a server of its own.
type load struct {
	t       *testing.T
	server  *testsql.Postgres
	proxies []*testsql.Proxy // one for each client
	ctx     context.Context
	stop    func() // ends the load and checks the lost handles

	mu     sync.Mutex            // guards all below
	inside map[string]*lock.Held // the latest holder of each key, until it unlocks
	last   map[string]uint64     // the latest token of each key
	grants int
	lost   []*lock.Held
	client int       // of the latest holder of longKey
	since  time.Time // when it got the lock
}

// longKey is the key that some holders hold for longer than a TTL.
const longKey = "k0"

const loadTTL = 1500 * time.Millisecond

func newLoad(t *testing.T, pessimistic bool) *load {
	t.Helper()
	l := &load{t: t, inside: map[string]*lock.Held{}, last: map[string]uint64{}}
	var err error
	l.server, err = testsql.LaunchPostgres()
	testsql.Check(t, err)
	t.Cleanup(l.server.Close)
	var cancel context.CancelFunc
	l.ctx, cancel = context.WithCancel(t.Context())
	var work sync.WaitGroup
	var clients []*lock.Client
	for n := range 2 {
		proxy, err := testsql.NewProxy(l.server.Addr())
		require.NoError(t, err)
		t.Cleanup(proxy.Close)
		l.proxies = append(l.proxies, proxy)
		db, err := sql.Open("pgx", proxy.DSN("connect_timeout=2"))
		require.NoError(t, err)
		t.Cleanup(func() { assert.NoError(t, db.Close()) })
		require.NoError(t, CreateSchema(t.Context(), db, PostgreSQL(), nil))
		store, err := New(db, PostgreSQL(), &Options{Pessimistic: pessimistic, Timeout: time.Second, PollInterval: 10 * time.Millisecond})
		require.NoError(t, err)
		client, err := lock.New(store, &lock.Options{Terms: lock.Terms{TTL: loadTTL}, Logger: slog.New(slog.DiscardHandler)})
		require.NoError(t, err)
		clients = append(clients, client)
		for i := range 6 {
			work.Go(func() {
				for l.ctx.Err() == nil {
					l.hold(n, client, fmt.Sprint("k", i%3), i == 0)
				}
			})
		}
	}
	l.stop = sync.OnceFunc(func() {
		cancel()
		work.Wait()
		for _, c := range clients {
			ending, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			assert.NoError(t, c.Close(ending))
			cancel()
		}
		for _, h := range l.lost {
			assert.False(t, h.Valid(), "a lost lock is never valid again")
		}
	})
	t.Cleanup(l.stop)
	return l
}

// hold acquires a key, uses it, and unlocks it.
func (l *load) hold(n int, c *lock.Client, key string, long bool) {
	m := c.Mutex(key)
	h, err := m.Lock(l.ctx)
	if err != nil {
		select {
		case <-time.After(5 * time.Millisecond): // an outage
		case <-l.ctx.Done():
		}
		return
	}
	l.enter(n, key, h)
	use := 2 * time.Millisecond
	if long {
		use = 2 * loadTTL // renews, and holds on if the network fails
	}
	select {
	case <-h.Done():
		l.leave(key, h, true)
	case <-time.After(use):
		l.leave(key, h, false)
	}
	_ = h.Unlock(context.Background())
}

// enter checks a grant.
func (l *load) enter(n int, key string, h *lock.Held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if before := l.inside[key]; before != nil {
		assert.False(l.t, before.Valid(), "%s: token %d is valid when %d is granted", key, before.Token(), h.Token())
	}
	assert.Greater(l.t, h.Token(), l.last[key], key)
	l.inside[key], l.last[key] = h, h.Token()
	l.grants++
	if key == longKey {
		l.client, l.since = n, time.Now()
	}
}

func (l *load) leave(key string, h *lock.Held, lost bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.inside[key] == h {
		delete(l.inside, key)
	}
	if lost {
		l.lost = append(l.lost, h)
	}
}

// progress waits until the load has got all keys several times.
func (l *load) progress() {
	l.t.Helper()
	l.mu.Lock()
	want := l.grants + 30
	l.mu.Unlock()
	require.Eventually(l.t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		return l.grants >= want
	}, 2*time.Minute, 10*time.Millisecond, "the load goes on")
}

// renewedBy waits until a client holds longKey and has renewed it.
func (l *load) renewedBy(n int) {
	l.t.Helper()
	require.Eventually(l.t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		h := l.inside[longKey]
		return h != nil && h.Valid() && l.client == n && time.Since(l.since) > loadTTL
	}, time.Minute, time.Millisecond, "the client holds the key")
}

// allLost waits until no lock is held although the server answers nothing.
func (l *load) allLost() {
	l.t.Helper()
	require.Eventually(l.t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for _, h := range l.inside {
			if h.Valid() {
				return false
			}
		}
		return true
	}, time.Minute, 10*time.Millisecond, "every holder is told")
}
