// Package locktest tests the contract of a lock store. The tests of every store call
// [TestStore]. The package also has a store with injected faults ([Faulty]) and checkers of
// mutual exclusion ([Exclusion], [Conflicts]).
//
//	func TestContract(t *testing.T) {
//		locktest.TestStore(t, locktest.Config{
//			New: func(t *testing.T) driver.Store { return mystore.New(server) },
//			TTL: 3 * time.Second,
//		})
//	}
//
// What the client does for every store alike has no case here, because a store cannot change
// it: hooks, the text of an exported lease, MaxHold, waits across keys, and what a loss does to
// the work of the holder. Work under Held.Context is cancelled, and other work goes on and asks
// Held.Valid. What only some servers have, such as replicas that confirm and the check of a
// server's settings, is tested with the store that has it. So are events,
// which depend on the faults of a server.
package locktest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// Config describes the store under test.
type Config struct {
	// New returns a store. Each case calls it once. It may return a store that other
	// cases use too, because each case has its own keys. No case closes the store; use
	// t.Cleanup for that.
	New func(t *testing.T) driver.Store

	// TTL is the lease time of cases that wait for a lease to end. All other cases use
	// twenty times as much, or the longest TTL that the store accepts if it is less. It must be set, to at least driver.MinTTL. For a store on
	// real time, choose a short TTL that outlasts the work of a case, such as 3 s. In
	// virtual time, use 40 s: this also tests that tombstones last for nearly a minute.
	TTL time.Duration

	// Tokenless is set for a store without fencing tokens.
	Tokenless bool

	// NoMetadata is set for a store that does not show the metadata of holders.
	NoMetadata bool

	// Explains is set for a store that reports why a lease is lost, by LostMissing and LostTaken.
	Explains bool

	// Run runs a case. Use synctest.Test for a store that runs in virtual time. By
	// default, a case runs in parallel with others, because most cases sleep.
	Run func(t *testing.T, f func(t *testing.T))

	// NoBraces is set for a store that refuses keys with braces, because its format of keys does not
	// keep them in one slot of a Redis Cluster.
	NoBraces bool

	// Modes lists the modes that the store supports besides Exclusive, such as AllModes.
	// Cases of other modes are skipped, except for the one that expects
	// errors.ErrUnsupported.
	Modes []driver.Mode

	// Delete removes a key without the knowledge of its holders, in any mode, like an
	// operator or a fault. Tokens must rise nevertheless. If Delete is nil, the cases
	// that need it are skipped.
	Delete func(t *testing.T, s driver.Store, key string)

	// Waiting returns the number of waiters in the queue of a lock. Dead waiters may be
	// counted. It must be set if the store waits.
	Waiting func(t *testing.T, s driver.Store, key string) int

	// Die puts a waiter into the queue of a lock and then abandons it. If Die is nil, the
	// cases that need it are skipped.
	Die func(t *testing.T, s driver.Store, r driver.Request)

	// Another returns a second store with the same data as s, like a store of another
	// process. If Another is nil, the cases that need it are skipped.
	Another func(t *testing.T, s driver.Store) driver.Store

	// Spoil stores data that is not a lock at a key, in place of the lock if there is
	// one. Spoiled reports whether the data is still there. If they are nil, the cases
	// that need them are skipped.
	Spoil   func(t *testing.T, s driver.Store, key string)
	Spoiled func(t *testing.T, s driver.Store, key string) bool

	can   driver.Description // of the store
	turns chan struct{}      // holds an element for each case at work; nil in virtual time
}

// TestStore runs the whole contract against the store and returns when all cases are
// done. It logs which cases are skipped because the store does not declare that it can do something, or because a
// field of c is not set. The prefix of a
// case, such as S1, is the promise of the page [safety] that it tests. The page
// [writing a store] lists the usual mistake behind each failing case.
//
// In real time, the suite takes 35 s to two minutes with a TTL of 3 s, because its cases
// wait for leases to end. In virtual time, with Run: synctest.Test, it takes seconds.
//
// [safety]: https://github.com/leasewheel/leasewheel/blob/main/docs/SAFETY.md
// [writing a store]: https://github.com/leasewheel/leasewheel/blob/main/docs/EXTENDING.md
func TestStore(t *testing.T, c Config) {
	require.NotNil(t, c.New, "Config.New must be set")
	describe := func(t *testing.T) { c.can = c.New(t).Describe() }
	if c.Run != nil {
		c.Run(t, describe)
	} else {
		describe(t)
	}
	c.check(t)
	if c.Run != nil {
		testAll(t, c)
		return
	}
	c.Run = func(t *testing.T, f func(t *testing.T)) {
		t.Parallel()
		f(t)
	}
	c.turns = turns
	t.Run("all", func(t *testing.T) { testAll(t, c) })
}

// check fails the test if a required field is missing, and logs which cases are skipped.
func (c Config) check(t *testing.T) {
	t.Helper()
	require.GreaterOrEqual(t, c.TTL, driver.MinTTL, "Config.TTL must be set")
	require.Equal(t, c.can.Waits, c.Waiting != nil, "Config.Waiting must be set if the store waits")
	for _, option := range []struct {
		name  string
		given bool
	}{
		{"Description.Waits", c.can.Waits},
		{"Description.Unordered, which must be empty (the order of waiters)", c.can.Unordered == 0},
		{"Description.ReleasesAll", c.can.ReleasesAll},
		{"Description.Inspects", c.can.Inspects},
		{"Description.TimesWaiters", c.can.TimesWaiters},
		{"Description.Lists", c.can.Lists},
		{"Description.SetsMetadata", c.can.SetsMetadata},
		{"Description.Saves", c.can.Saves},
		{"Description.Imports", c.can.Imports},
		{"Description.Keeps", needsKept(c)},
		{"Description.Yields", c.can.Yields != 0},
		{"Config.Explains (that a loss has its reason)", c.Explains},
		{"Config.Modes (all cases of readers, writers, permits and batches)", len(c.Modes) > 0},
		{"Config.NoMetadata, which must be false", !c.NoMetadata},
		{"Config.Delete", c.Delete != nil},
		{"Config.Die", c.Die != nil},
		{"Config.Another", c.Another != nil},
		{"Config.Spoil and Spoiled", needsSpoil(c)},
	} {
		if !option.given {
			t.Logf("skipped: the cases that need %s", option.name)
		}
	}
}

// turns limits how many cases on real time work at once, in all suites of a process. The cases
// that wait for leases to end run beside them without a limit: they mostly sleep, but their
// renewals must get a processor in time.
var turns = make(chan struct{}, 3)

// testAll begins the cases that wait for leases to end before all others.
func testAll(t *testing.T, c Config) {
	for _, ends := range []bool{true, false} {
		for _, group := range groups() {
			for _, tc := range group.cases {
				if tc.ends == ends && (group.needs == nil || group.needs(c)) && (tc.needs == nil || tc.needs(c)) {
					t.Run(tc.name, func(t *testing.T) { c.Run(t, func(t *testing.T) { tc.on(t, c) }) })
				}
			}
		}
	}
}

// on runs the case with a fixture.
func (tc testCase) on(t *testing.T, c Config) {
	if !tc.ends {
		c.TTL *= longTTL
		if c.turns != nil {
			c.turns <- struct{}{}
			defer func() { <-c.turns }()
		}
	}
	tc.run(newFixture(t, c))
}

// group is a list of cases with a common condition.
type group struct {
	needs func(c Config) bool
	cases []testCase
}

func groups() []group {
	return []group{
		{nil, acquiring},
		{nil, renewing},
		{nil, releasing},
		{needsBulk, bulk},
		{nil, explaining},
		{needsKept, keeping},
		{nil, lengths},
		{nil, ttlLimits},
		{nil, refusing},
		{nil, contending},
		{needsInspector, inspecting},
		{both(needsInspector, func(c Config) bool { return c.can.SetsMetadata }), settingMetadata},
		{func(c Config) bool { return c.can.Saves }, saving},
		{needsLister, listing},
		{func(c Config) bool { return c.can.Imports }, resuming},
		{nil, waiting},
		{needsAnother, otherProcesses},
		{nil, reentering},
		{nil, limiting},
		{nil, multiLocks},
		{nil, unknownModes()},
		{nil, casesOf(perMode)},
		{nil, allModesTogether},
		{nil, families},
		{nil, mixing},
		{nil, ending},
		{needsModes(driver.Read, driver.Write), reading},
		{needsModes(driver.Permit), permitting},
		{needsModes(driver.Members), batching},
		{needsWaiting, casesOf(perModeWaiting)},
		{needsWaiting, allModesWaiting},
		{needsOrder, queueing},
		{needsWaiting, dying},
		{nil, wanting},
		{nil, available},
		{nil, endingContexts},
		{nil, crowding},
		{nil, kinds},
	}
}

type testCase struct {
	name  string
	run   func(f *fixture)
	needs func(c Config) bool

	// ends is set for a case that waits for leases to end or to be renewed. The leases of
	// other cases outlast a busy machine.
	ends bool
}

// longTTL is the factor for the TTL of cases that do not wait for leases to end.
const longTTL = 20

func needsMetadata(c Config) bool { return !c.NoMetadata }
func needsDelete(c Config) bool   { return c.Delete != nil }
func needsExplains(c Config) bool { return c.Explains }
func needsSpoil(c Config) bool    { return c.Spoil != nil && c.Spoiled != nil }

// fixture holds the store, the configuration and the names of one case.
type fixture struct {
	*testing.T
	Config
	store  driver.Store
	ctx    context.Context
	prefix string // prefix of the case's keys
	client string // of the owners
	limits driver.TTLLimits
	serial atomic.Uint64 // of the owners
	kept   time.Time     // the last keep; only the goroutine of the case uses it
}

func newFixture(t *testing.T, c Config) *fixture {
	// The timeout detects a store that never serves a waiter. It is long, so that a slow
	// store on a busy machine still passes.
	store := c.New(t)
	limits := store.Describe().TTL
	if limits.Max > 0 {
		c.TTL = min(c.TTL, limits.Max)
	}
	require.NoError(t, limits.Check(c.TTL), "Config.TTL")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 5*time.Minute+200*limits.Longest(c.TTL), errEndless)
	t.Cleanup(cancel)
	return &fixture{T: t, Config: c, store: store, ctx: ctx, prefix: rand.Text(), client: rand.Text(), limits: limits, kept: time.Now()}
}

var errEndless = errors.New("locktest: case timed out")

// request returns a request for a key of this case, with a new owner. The owner is as
// long as the longest owner of a client or quorum, and differs from others in its last
// bytes.
func (f *fixture) request(key string) driver.Request {
	owner := fmt.Sprintf("%s:%027d", f.client, f.serial.Add(1))
	return driver.Request{Key: f.prefix + key, Owner: owner, Mode: driver.Exclusive, TTL: f.TTL}
}

// acquire acquires a free lock. The lease has Sent set, as the client does it.
func (f *fixture) acquire(r driver.Request) driver.Lease {
	f.Helper()
	start := time.Now()
	l, err := f.store.Acquire(f.ctx, r)
	require.NoError(f, err)
	if l.Sent.IsZero() {
		l.Sent = start
	}
	return complete(l, r)
}

// complete sets the request of a lease, as the client does.
func complete(l driver.Lease, r driver.Request) driver.Lease {
	l.Request = r
	return l
}

// heldByOther expects that another owner holds the lock.
func (f *fixture) heldByOther(key string) *driver.HeldError {
	f.Helper()
	_, err := f.store.Acquire(f.ctx, f.request(key))
	var held *driver.HeldError
	require.ErrorAs(f, err, &held)
	require.ErrorIs(f, err, driver.ErrNotAcquired)
	return held
}

// usable reports whether the store accepts the bytes of a key.
func (f *fixture) usable(key string) bool { return !f.NoBraces || !strings.ContainsAny(key, "{}") }

// rises expects that after is greater than before, if the store has tokens.
func (f *fixture) rises(before, after uint64) {
	f.Helper()
	assert.Equal(f, f.Tokenless, after <= before, "token %d after token %d", after, before)
}

// outcome is the name of a renewal.Outcome, for messages.
type outcome string

const (
	unknown outcome = "unknown"
	renewed outcome = "renewed"
	lost    outcome = "lost"
)

func wordOf(o renewal.Outcome) outcome {
	switch {
	case o == renewal.Unknown:
		return unknown
	case o == renewal.Renewed:
		return renewed
	case o.IsLost():
		return lost
	}
	return outcome(fmt.Sprintf("invalid outcome %d", o))
}

// renew renews leases in one batch.
func (f *fixture) renew(leases ...driver.Lease) []outcome {
	f.Helper()
	out := make([]renewal.Outcome, len(leases))
	require.NoError(f, f.store.Renew(f.ctx, leases, out), "Renew returns an error only if outcomes are Unknown")
	words := make([]outcome, len(out))
	for i, o := range out {
		words[i] = wordOf(o)
	}
	return words
}

// expire sleeps until leases that were granted or renewed before have ended.
func (f *fixture) expire() { f.outlast(time.Now()) }

// outlast sleeps until leases that were last renewed at an instant, or before, have ended. It
// renews other leases in the meantime.
func (f *fixture) outlast(last time.Time, others ...driver.Lease) {
	f.Helper()
	end := last.Add(f.longest(f.TTL) + f.TTL/20 + time.Millisecond)
	for left := time.Until(end); left > 0; left = time.Until(end) {
		if len(others) == 0 {
			time.Sleep(left)
			continue
		}
		time.Sleep(min(left, f.TTL/3))
		for i, got := range f.renew(others...) {
			require.Equal(f, renewed, got, others[i])
		}
	}
}

// sleepPast sleeps until that many tenths of the TTL have passed since a lease was granted, or
// since its session was renewed.
func (f *fixture) sleepPast(l driver.Lease, tenths int) {
	time.Sleep(time.Until(l.Sent.Add(f.TTL * time.Duration(tenths) / 10)))
}

// aMinute returns a TTL of a minute, or the longest that the store accepts if it is shorter.
func (f *fixture) aMinute() time.Duration {
	if f.limits.Max > 0 {
		return min(time.Minute, f.limits.Max)
	}
	return time.Minute
}
