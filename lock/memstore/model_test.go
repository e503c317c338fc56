package memstore

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// keyModel is a simple model of a key: two lists that are searched from end to end.
type keyModel struct {
	holders, queue []modelLease
}

type modelLease struct {
	driver.Request
	until time.Time
}

func conflict(a, b driver.Request) bool {
	switch a.Mode {
	case driver.Read:
		return b.Mode != driver.Read
	case driver.Members:
		return slices.ContainsFunc(a.Members(), func(m string) bool { return slices.Contains(b.Members(), m) })
	}
	return true
}

// fits reports whether the holders allow a request that does not overtake the waiters
// ahead.
func (m *keyModel) fits(r driver.Request, ahead []modelLease) bool {
	against := func(l modelLease) bool { return conflict(r, l.Request) }
	switch r.Mode {
	case driver.Permit:
		held := 0
		for _, l := range m.holders {
			held += l.Permits()
		}
		return held+r.Permits() <= r.Limit() && len(ahead) == 0
	case driver.Members:
		return !slices.ContainsFunc(m.holders, against) && !slices.ContainsFunc(ahead, against)
	}
	return !slices.ContainsFunc(m.holders, against) && len(ahead) == 0
}

// advance ends expired leases and grants the lock to waiters.
func (m *keyModel) advance(now time.Time) {
	m.holders = slices.DeleteFunc(m.holders, func(l modelLease) bool { return !now.Before(l.until) })
	for i := 0; i < len(m.queue); i++ {
		if l := m.queue[i]; m.fits(l.Request, m.queue[:i]) {
			l.until = now.Add(l.TTL)
			m.holders = append(m.holders, l)
			m.queue = slices.Delete(m.queue, i, i+1)
			i--
		}
	}
}

// blockedFor returns how long the holders alone block a request.
func (m *keyModel) blockedFor(r driver.Request, now time.Time) time.Duration {
	left := slices.Clone(m.holders)
	slices.SortFunc(left, func(a, b modelLease) int { return a.until.Compare(b.until) })
	var end time.Time
	for len(left) > 0 && !(&keyModel{holders: left}).fits(r, nil) {
		end, left = left[0].until, left[1:]
	}
	if end.IsZero() {
		return 0
	}
	return end.Sub(now)
}

func ownersOf(leases []modelLease) []string {
	owners := make([]string, len(leases))
	for i, l := range leases {
		owners[i] = l.Owner
	}
	return owners
}

// modelRun compares one key of a store with its model.
type modelRun struct {
	t       *testing.T
	rng     *rand.Rand
	s       *Store
	m       keyModel
	modes   []driver.Mode
	cancels map[string]context.CancelFunc
	done    chan string // owners whose Wait has returned an error
	n       int
}

const modelKey = "k"

func (r *modelRun) request() driver.Request {
	r.n++
	q := driver.Request{
		Key: modelKey, Owner: fmt.Sprint("owner ", r.n), Mode: r.modes[r.rng.IntN(len(r.modes))],
		TTL: time.Duration(1+r.rng.IntN(30)) * time.Second,
	}
	q.Attrs = &driver.Attrs{}
	switch q.Mode {
	case driver.Permit:
		q.Attrs.Limit = 1 + r.rng.IntN(32)
		q.Attrs.Permits = r.rng.IntN(min(q.Attrs.Limit, 4) + 1)
	case driver.Members:
		for i := range 40 {
			if r.rng.IntN(12) == 0 || i == r.n%40 {
				q.Attrs.Members = append(q.Attrs.Members, fmt.Sprintf("member %02d", i))
			}
		}
	}
	return q
}

func (r *modelRun) acquire() {
	q, now := r.request(), time.Now()
	free := r.m.fits(q, r.m.queue)
	_, err := r.s.Acquire(r.t.Context(), q)
	if free {
		require.NoError(r.t, err)
		r.m.holders = append(r.m.holders, modelLease{q, now.Add(q.TTL)})
		return
	}
	var held *driver.HeldError
	require.ErrorAs(r.t, err, &held)
	require.Equal(r.t, r.m.blockedFor(q, now), held.ExpiresIn)
}

func (r *modelRun) wait() {
	q := r.request()
	ctx, cancel := context.WithCancel(context.Background())
	r.cancels[q.Owner] = cancel
	r.m.queue = append(r.m.queue, modelLease{q, time.Time{}})
	go func() {
		if _, err := r.s.Wait(ctx, q, func() {}); err != nil {
			r.done <- q.Owner
		}
	}()
}

func (r *modelRun) cancel() {
	if len(r.m.queue) == 0 {
		return
	}
	i := r.rng.IntN(len(r.m.queue))
	owner := r.m.queue[i].Owner
	r.m.queue = slices.Delete(r.m.queue, i, i+1)
	r.cancels[owner]()
	require.Equal(r.t, owner, <-r.done)
}

func (r *modelRun) hold() (i int, l driver.Lease, ok bool) {
	if len(r.m.holders) == 0 {
		return 0, l, false
	}
	i = r.rng.IntN(len(r.m.holders))
	l.Request = r.m.holders[i].Request
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	_, h := r.s.held(&l, time.Now())
	require.NotNil(r.t, h)
	l.Token = h.token
	return i, l, true
}

func (r *modelRun) release() {
	if i, l, ok := r.hold(); ok {
		r.m.holders = slices.Delete(r.m.holders, i, i+1)
		require.NoError(r.t, r.s.Release(r.t.Context(), l))
	}
}

func (r *modelRun) renew() {
	if i, l, ok := r.hold(); ok {
		l.TTL = time.Duration(1+r.rng.IntN(40)) * time.Second
		if end := time.Now().Add(l.TTL); end.After(r.m.holders[i].until) { // a renewal never shortens a lease
			r.m.holders[i].until = end
		}
		out := make([]renewal.Outcome, 1)
		require.NoError(r.t, r.s.Renew(r.t.Context(), []driver.Lease{l}, out))
		require.Equal(r.t, renewal.Renewed, out[0])
	}
}

func (r *modelRun) revoke() {
	held := len(r.m.holders) > 0
	r.m.holders = nil
	require.Equal(r.t, held, r.s.Delete(modelKey))
}

// check compares the store with the model.
func (r *modelRun) check() {
	synctest.Wait()
	now := time.Now()
	r.m.advance(now)
	info, err := r.s.Inspect(r.t.Context(), modelKey)
	require.NoError(r.t, err)
	require.Equal(r.t, len(r.m.holders), info.Held)
	require.Equal(r.t, len(r.m.queue), info.Waiting)
	r.s.mu.Lock()
	k := r.s.keys[modelKey]
	r.s.mu.Unlock()
	if k == nil {
		require.Empty(r.t, r.m.holders)
		require.Empty(r.t, r.m.queue)
		return
	}
	last := slices.MaxFunc(append(r.m.holders, modelLease{}), func(a, b modelLease) int { return a.until.Compare(b.until) })
	require.Equal(r.t, last.until.Sub(now), r.s.ExpiresIn(modelKey))
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	var queue []string
	for _, w := range k.queue {
		queue = append(queue, w.request.Owner)
	}
	require.ElementsMatch(r.t, ownersOf(r.m.holders), slices.Collect(maps.Keys(k.leases)))
	require.Equal(r.t, ownersOf(r.m.queue), append([]string{}, queue...))
	r.checkMembers(k)
}

// checkMembers checks that only members with a holder or a waiter are stored.
func (r *modelRun) checkMembers(k *state) {
	names := map[string]bool{}
	for _, l := range append(slices.Clone(r.m.holders), r.m.queue...) {
		for _, m := range l.Members() {
			names[m] = true
		}
	}
	require.Len(r.t, k.members, len(names))
}

// Random operations on a key have the same effect on the store as on the model.
func TestAKeyMatchesItsModel(t *testing.T) {
	for name, modes := range map[string][]driver.Mode{
		"exclusive": {driver.Exclusive},
		"readers":   {driver.Read, driver.Read, driver.Write},
		"permits":   {driver.Permit},
		"members":   {driver.Members},
	} {
		for seed := range uint64(4) {
			t.Run(fmt.Sprint(name, " ", seed), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { testModel(t, modes, seed) })
			})
		}
	}
}

func testModel(t *testing.T, modes []driver.Mode, seed uint64) {
	r := &modelRun{
		t: t, rng: rand.New(rand.NewPCG(seed, 1)), s: New(), modes: modes,
		cancels: map[string]context.CancelFunc{}, done: make(chan string, 1),
	}
	most, waiting := 0, 0
	for range 2000 {
		switch n := r.rng.IntN(100); {
		case n < 35:
			r.acquire()
		case n < 60 && len(r.m.queue) < 60:
			r.wait()
		case n < 65:
			r.cancel()
		case n < 80:
			r.release()
		case n < 90:
			r.renew()
		case n < 91:
			r.revoke()
		default:
			for range 1 + r.rng.IntN(5) { // check after every second, because leases end on whole seconds
				time.Sleep(time.Second)
				r.check()
			}
		}
		r.check()
		most, waiting = max(most, len(r.m.holders)), max(waiting, len(r.m.queue))
	}
	if modes[0] != driver.Exclusive {
		assert.Greater(t, most, 4, "the test did too little")
	}
	assert.Greater(t, waiting, 10, "the test did too little")
	require.NoError(t, r.s.Close())
	for range r.m.queue {
		<-r.done
	}
}
