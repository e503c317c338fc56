// Package locktest holds the contract of a lock store as tests: every store calls
// [TestStore] from one of its own. It also offers what tests of locks need: a store
// that fails on demand ([Faulty]), and checkers of mutual exclusion ([Exclusion],
// [Conflicts]).
//
//	func TestContract(t *testing.T) {
//		locktest.TestStore(t, locktest.Config{
//			New: func(t *testing.T) lock.Store { return mystore.New(server) },
//			TTL: 3 * time.Second,
//		})
//	}
package locktest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

// Config describes the store under test.
type Config struct {
	// New returns a store; each case calls it once. It may be one that other cases use
	// too: each case has keys of its own. No case closes it: give that to t.Cleanup.
	New func(t *testing.T) lock.Store

	// TTL is the lease that those cases work with which wait for its end; it must be
	// set, to lock.MinTTL at least. Make it short for a store on real time, but long
	// enough that it does not end while one is still at work, such as 3 s. All others
	// have leases of twenty times that. In virtual time take 40 s: then it is seen
	// that owners who were given up are refused for nearly a minute.
	TTL time.Duration

	// Tokenless is for a store that has no fencing tokens.
	Tokenless bool

	// Inspects is for a store that is a lock.Inspector.
	Inspects bool

	// Run runs a case, such as synctest.Test for a store that lives in virtual
	// time. Default: the case is called, in parallel with others, for most of them
	// sleep.
	Run func(t *testing.T, f func(t *testing.T))

	// Modes are those that the store knows beside Exclusive, such as AllModes. Cases
	// of others are left out, but for one: that it answers errors.ErrUnsupported.
	Modes []lock.Mode

	// Delete takes a key away behind the back of its holders, in whatever mode, as an
	// operator does or a fault. Tokens have to rise all the same. Cases that need it are
	// left out if it is nil.
	Delete func(t *testing.T, s lock.Store, key string)

	// Waiting returns how many are in the queue of a lock; those that have died there may
	// be counted. Cases that wait are left out if it is nil, as for a store that is no
	// lock.Waiter.
	Waiting func(t *testing.T, s lock.Store, key string) int

	// Die puts a waiter into the queue of a lock that is never heard of again. Cases
	// that need it are left out if it is nil.
	Die func(t *testing.T, s lock.Store, r lock.Request)

	// Another returns a second store with the same data as s, as another process has
	// one. Cases that need it are left out if it is nil.
	Another func(t *testing.T, s lock.Store) lock.Store

	// Spoil puts something at a key that is not a lock, in place of the lock if there is
	// one, and Spoiled tells whether it is still there. Cases that need them are left out if they are nil.
	Spoil   func(t *testing.T, s lock.Store, key string)
	Spoiled func(t *testing.T, s lock.Store, key string) bool
}

// TestStore runs the whole contract against the store, and returns when all of it is
// done. It logs which cases are left out for want of a field of c. What the names of
// cases begin with, such as S1, is the promise of docs/SAFETY.md that they guard;
// docs/STORES.md says what the usual mistake is when one fails.
func TestStore(t *testing.T, c Config) {
	c.check(t)
	if c.Run != nil {
		testAll(t, c)
		return
	}
	c.Run = func(t *testing.T, f func(t *testing.T)) {
		t.Parallel()
		f(t)
	}
	t.Run("all", func(t *testing.T) { testAll(t, c) })
}

// check tells what is missing, and what is not tested for want of it.
func (c Config) check(t *testing.T) {
	t.Helper()
	require.NotNil(t, c.New, "Config.New must be set")
	require.GreaterOrEqual(t, c.TTL, lock.MinTTL, "Config.TTL must be set")
	for _, option := range []struct {
		name  string
		given bool
	}{
		{"Waiting, which are all of lock.Waiter", c.Waiting != nil},
		{"Inspects, which are all of lock.Inspector", c.Inspects},
		{"Modes, which are all of readers, writers, permits and batches", len(c.Modes) > 0},
		{"Delete", c.Delete != nil},
		{"Die", c.Die != nil},
		{"Another", c.Another != nil},
		{"Spoil and Spoiled", needsSpoil(c)},
	} {
		if !option.given {
			t.Logf("left out: the cases that need Config.%s", option.name)
		}
	}
}

func testAll(t *testing.T, c Config) {
	for _, group := range groups() {
		for _, tc := range group.cases {
			if group.needs != nil && !group.needs(c) || tc.needs != nil && !tc.needs(c) {
				continue
			}
			c := c
			if !tc.ends {
				c.TTL *= lasts
			}
			t.Run(tc.name, func(t *testing.T) {
				c.Run(t, func(t *testing.T) { tc.run(newFixture(t, c)) })
			})
		}
	}
}

// group is cases with a need in common.
type group struct {
	needs func(c Config) bool
	cases []testCase
}

func groups() []group {
	anyMode := func(c Config) bool { return len(c.Modes) > 0 }
	return []group{
		{nil, acquiring},
		{nil, renewing},
		{nil, releasing},
		{nil, lengths},
		{nil, refusing},
		{nil, contending},
		{needsInspector, inspecting},
		{nil, waiting},
		{nil, waitingForEnds},
		{needsAnother, anothers},
		{nil, reentering},
		{nil, limiting},
		{nil, several},
		{nil, unknownModes()},
		{nil, casesOf(perMode)},
		{anyMode, inAll},
		{nil, families},
		{nil, mixing},
		{nil, ending},
		{needsModes(lock.Read, lock.Write), reading},
		{needsModes(lock.Permit), permitting},
		{needsModes(lock.Members), batching},
		{needsWaiting, casesOf(perModeWaiting)},
		{both(anyMode, needsWaiting), inAllWaiting},
		{needsWaiting, queueing},
		{needsWaiting, dying},
		{nil, crowding},
		{nil, kinds},
	}
}

type testCase struct {
	name  string
	run   func(f *fixture)
	needs func(c Config) bool

	// ends: it waits for leases to end or to be renewed. Those of all others last
	// longer than a busy machine may be at work.
	ends bool
}

// lasts is how many times longer leases are that no case waits for.
const lasts = 20

func needsTokens(c Config) bool { return !c.Tokenless }
func needsDelete(c Config) bool { return c.Delete != nil }
func needsSpoil(c Config) bool  { return c.Spoil != nil && c.Spoiled != nil }

// fixture is what a case works with.
type fixture struct {
	*testing.T
	Config
	store  lock.Store
	ctx    context.Context
	prefix string        // of the keys
	client string        // of the owners
	serial atomic.Uint64 // of the owners
}

func newFixture(t *testing.T, c Config) *fixture {
	// A store that never lets a crowd through is told from one that is slow: on a machine
	// that is busy, or because those who wait poll.
	ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Minute+200*c.TTL, errEndless)
	t.Cleanup(cancel)
	return &fixture{T: t, Config: c, store: c.New(t), ctx: ctx, prefix: rand.Text(), client: rand.Text()}
}

var errEndless = errors.New("locktest: the case comes to no end")

// request returns a request for a key of this case, by a new owner, whose name is as long
// as the longest of a client or quorum and differs in what comes last.
func (f *fixture) request(key string) lock.Request {
	owner := fmt.Sprintf("%s:%027d", f.client, f.serial.Add(1))
	return lock.Request{Key: f.prefix + key, Owner: owner, Mode: lock.Exclusive, TTL: f.TTL}
}

// acquire gets a lock that is free.
func (f *fixture) acquire(r lock.Request) lock.Lease {
	f.Helper()
	l, err := f.store.Acquire(f.ctx, r)
	require.NoError(f, err)
	return complete(l, r)
}

// complete is what the client does with a lease.
func complete(l lock.Lease, r lock.Request) lock.Lease {
	l.Request = r
	return l
}

// taken expects that the lock is held by another.
func (f *fixture) taken(key string) *lock.HeldError {
	f.Helper()
	_, err := f.store.Acquire(f.ctx, f.request(key))
	var held *lock.HeldError
	require.ErrorAs(f, err, &held)
	require.ErrorIs(f, err, lock.ErrNotAcquired)
	return held
}

// rises expects that a token is above one before, if the store has any.
func (f *fixture) rises(before, after uint64) {
	f.Helper()
	assert.Equal(f, f.Tokenless, after <= before, "%d after %d", after, before)
}

// outcome is a renewal.Outcome in a word, for messages.
type outcome string

const (
	unknown outcome = "unknown"
	renewed outcome = "renewed"
	lost    outcome = "lost"
)

func wordOf(o renewal.Outcome) outcome {
	switch o {
	case renewal.Unknown:
		return unknown
	case renewal.Renewed:
		return renewed
	case renewal.Lost:
		return lost
	}
	return outcome(fmt.Sprintf("%d, which is no outcome", o))
}

// renew renews leases, in one batch.
func (f *fixture) renew(leases ...lock.Lease) []outcome {
	f.Helper()
	out := make([]renewal.Outcome, len(leases))
	require.NoError(f, f.store.Renew(f.ctx, leases, out), "an error is for those that are Unknown")
	words := make([]outcome, len(out))
	for i, o := range out {
		words[i] = wordOf(o)
	}
	return words
}

// expire lets leases that were granted or renewed until now run out.
func (f *fixture) expire() {
	time.Sleep(f.TTL + f.TTL/20 + time.Millisecond)
}
