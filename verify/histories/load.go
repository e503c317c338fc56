// The load: users that lock a few keys all the time.

package histories

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
)

// Load is users of several clients that lock a few keys all the time. A test breaks servers and
// networks meanwhile and calls Stop, which checks the history of what the users saw. The methods
// are for the goroutine of the test.
type Load struct {
	t       testing.TB
	ttl     time.Duration
	rw      bool // with readers
	history *History
	stop    func()

	mu      sync.Mutex // guards the fields below
	holders map[*lock.Held]holder
	grants  map[string]int // of each key
	lost    []*lock.Held
}

// holder is a user that has got a key and has not left it.
type holder struct {
	client int // index of the client
	since  time.Time
}

const (
	usersOfClient = 6
	loadKeys      = 3

	// longKey is held for longer than a TTL by one user of each client, so that its lease is
	// renewed.
	longKey = 0

	use   = 2 * time.Millisecond   // how long the others hold a key
	pause = 100 * time.Millisecond // at most, between two calls of a user; bounds the length of a history

	// patience is the time for what must happen in the end, even on a busy machine.
	patience = 2 * time.Minute
)

// NewLoad starts a load on clients whose locks have the given TTL. Stop ends it, as does the end of
// the test, before the clients are closed if their cleanup was registered before. The tests of a
// store give each client a connection of its own, which they can break.
func NewLoad(t testing.TB, ttl time.Duration, clients ...*lock.Client) *Load {
	t.Helper()
	return newLoad(t, &Load{ttl: ttl}, clients)
}

// NewRWLoad is NewLoad of readers and writers. The user of the first client that holds a lock for
// longer than a TTL is a writer, and that of the second client is a reader.
func NewRWLoad(t testing.TB, ttl time.Duration, clients ...*lock.Client) *Load {
	t.Helper()
	return newLoad(t, &Load{ttl: ttl, rw: true}, clients)
}

func newLoad(t testing.TB, l *Load, clients []*lock.Client) *Load {
	l.t, l.history, l.holders, l.grants = t, New(), map[*lock.Held]holder{}, map[string]int{}
	ctx, cancel := context.WithCancel(context.Background())
	var work sync.WaitGroup
	for c, client := range clients {
		for i := range usersOfClient {
			u := &user{load: l, number: c*usersOfClient + i, client: c, key: keyOf(i % loadKeys), long: i == longKey, locks: client}
			work.Go(func() { u.run(ctx) })
		}
	}
	l.stop = sync.OnceFunc(func() {
		cancel()
		work.Wait()
	})
	t.Cleanup(l.stop)
	return l
}

func keyOf(i int) string { return fmt.Sprint("k", i) }

// Fault calls f, which breaks something. From now on, requests or answers may get lost.
func (l *Load) Fault(f func()) {
	l.history.EndCalm(l.history.Now())
	f()
}

// Progress waits until the users have got each key again.
func (l *Load) Progress() {
	l.t.Helper()
	before, sum := l.counts()
	require.Eventually(l.t, func() bool {
		now, total := l.counts()
		for i := range loadKeys {
			if now[keyOf(i)] == before[keyOf(i)] {
				return false
			}
		}
		return total >= sum+30
	}, patience, 10*time.Millisecond, "the load goes on")
}

// counts returns the number of grants of each key and their sum.
func (l *Load) counts() (map[string]int, int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	out, sum := map[string]int{}, 0
	for key, n := range l.grants {
		out[key] = n
		sum += n
	}
	return out, sum
}

// Renewed waits until a client, given by its index, has held a lock for longer than its TTL and
// holds it still.
func (l *Load) Renewed(client int) {
	l.t.Helper()
	require.Eventually(l.t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for held, h := range l.holders {
			if h.client == client && time.Since(h.since) > l.ttl && held.Valid() {
				return true
			}
		}
		return false
	}, patience, time.Millisecond, "client %d renews a lock", client)
}

// Told waits until no lock is valid. The servers must not answer meanwhile.
func (l *Load) Told() {
	l.t.Helper()
	require.Eventually(l.t, func() bool {
		l.mu.Lock()
		defer l.mu.Unlock()
		for held := range l.holders {
			if held.Valid() {
				return false
			}
		}
		return true
	}, patience, 10*time.Millisecond, "every holder is told")
}

// Stop ends the load, and fails the test if its history is not linearizable or if a lost lock has
// become valid again.
func (l *Load) Stop() {
	l.t.Helper()
	l.StopWith(Locks)
}

// StopWith is Stop for a history that must satisfy another model.
func (l *Load) StopWith(m Model) {
	l.t.Helper()
	l.stop()
	for _, h := range l.lost {
		assert.False(l.t, h.Valid(), "%v: a lost lock is valid again", h)
	}
	assert.Empty(l.t, l.history.Violations(m))
}

// user locks one key repeatedly.
type user struct {
	load   *Load
	number int
	client int
	key    string
	long   bool
	locks  *lock.Client
}

// run uses the lock until ctx ends.
func (u *user) run(ctx context.Context) {
	h := u.load.history
	for ctx.Err() == nil {
		began := h.Now()
		u.useOnce(ctx)
		length := rand.N(pause)
		before := h.Now()
		select {
		case <-time.After(length):
		case <-ctx.Done():
		}
		if time.Duration(h.Now()-before) > length+u.load.ttl/5 { // the process stood still
			h.EndCalm(began)
		}
	}
}

// useOnce acquires the lock, uses it and releases it.
func (u *user) useOnce(ctx context.Context) {
	h := u.load.history
	reads := u.reads()
	ask, tries := lock.Locker.Lock, !u.long && rand.N(4) == 0
	if tries {
		ask = lock.Locker.TryLock
	}
	t := Tenure{User: u.number, Reads: reads, Asked: h.Now()}
	held, err := ask(u.locker(reads), ctx)
	t.Replied, t.Outcome = h.Now(), OutcomeOf(err)
	if tries && time.Duration(t.Replied-t.Asked) > u.load.ttl/5 {
		h.EndCalm(t.Asked) // another user may have got an answer too late, and asked again
	}
	if err == nil {
		t.Token, t.Valid = held.Token(), t.Asked
		u.load.enter(u, held)
		u.use(held, &t)
		u.load.leave(held)
		t.Leaving = h.Now()
		t.Ending = EndingOf(held.Unlock(context.Background()))
		t.Left = h.Now()
		assert.False(u.load.t, held.Valid(), "%v: valid after Unlock", held)
	}
	h.Add(u.key, t)
}

// reads returns whether the user is a reader this time.
func (u *user) reads() bool {
	if u.long {
		return u.load.rw && u.client%2 == 1
	}
	return u.load.rw && rand.N(2) == 0
}

func (u *user) locker(reads bool) lock.Locker {
	switch {
	case reads:
		return u.locks.RWMutex(u.key).RLocker()
	case u.load.rw:
		return u.locks.RWMutex(u.key)
	}
	return u.locks.Mutex(u.key)
}

// use holds the lock for a while and records when it was valid.
func (u *user) use(held *lock.Held, t *Tenure) {
	length := use
	if u.long {
		length = 2 * u.load.ttl // renews, and holds on if the network fails
	}
	for end := time.Now().Add(length); time.Now().Before(end); time.Sleep(use) {
		now := u.load.history.Now()
		if !held.Valid() {
			assert.Error(u.load.t, held.Err(), "%v is not valid", held)
			u.load.lose(held)
			return
		}
		t.Valid = now
	}
}

func (l *Load) enter(u *user, held *lock.Held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.holders[held] = holder{u.client, time.Now()}
	l.grants[u.key]++
}

func (l *Load) leave(held *lock.Held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.holders, held)
}

func (l *Load) lose(held *lock.Held) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lost = append(l.lost, held)
}
