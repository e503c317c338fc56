package quorumstore

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// These tests compare each way of counting with its meaning: a count is decided as soon
// as no further answer can change its result, and not before.

// kinds counts the answers to an operation: for it, against it, and without a result.
type kinds [3]int

const (
	yea = iota
	nay
	mum
)

// every calls f with all sequences of answers of at most n members.
func every(n int, f func(seq []int)) {
	var from func(seq []int)
	from = func(seq []int) {
		f(seq)
		for kind := range len(kinds{}) {
			if len(seq) < n {
				from(append(seq[:len(seq):len(seq)], kind))
			}
		}
	}
	from(nil)
}

// outcomes returns the possible results of a count with the given first answers.
func outcomes(n int, seq []int, final func(k kinds) string) map[string]bool {
	all := make(map[string]bool)
	every(n-len(seq), func(rest []int) {
		if len(seq)+len(rest) < n {
			return
		}
		var k kinds
		for _, kind := range append(seq[:len(seq):len(seq)], rest...) {
			k[kind]++
		}
		all[final(k)] = true
	})
	return all
}

// counts calls f for all sizes of quorums, all majorities, and all sequences of first
// answers.
func counts(f func(n, need int, seq []int)) {
	for n := 1; n <= 5; n++ {
		for need := n/2 + 1; need <= n; need++ {
			every(n, func(seq []int) { f(n, need, seq) })
		}
	}
}

func only(all map[string]bool, one string) bool { return len(all) == 1 && all[one] }

func TestABallotIsDecidedAsSoonAsPossible(t *testing.T) {
	for _, repeated := range []bool{false, true} {
		t.Run(fmt.Sprint("repeated: ", repeated), func(t *testing.T) { testDecision(t, repeated) })
	}
}

func testDecision(t *testing.T, repeated bool) {
	counts(func(n, need int, seq []int) {
		can := outcomes(n, seq, func(k kinds) string {
			switch {
			case k[yea] >= need:
				return "granted"
			case repeated && n-k[nay] < need, !repeated && k[yea]+k[nay] >= need:
				return "taken"
			}
			return "failed"
		})
		b := ballot{members: n, need: need, repeated: repeated}
		for i, kind := range seq {
			b.add(answer[driver.Lease]{at: i, err: []error{nil, &driver.HeldError{}, io.EOF}[kind]})
		}
		assert.Equal(t, len(can) == 1, b.decided(), "%d of %d: %v", need, n, seq)
		if len(can) > 1 {
			return
		}
		err := b.result("k")
		var held *driver.HeldError
		assert.Equal(t, can["granted"], err == nil)
		assert.Equal(t, can["taken"], errors.As(err, &held))
		assert.Equal(t, can["failed"], errors.Is(err, io.EOF))
	})
}

// A majority is free once so many leases of other holders have ended that a client with
// some copies can get the remaining ones.
func TestABallotReportsWhenAMajorityIsFree(t *testing.T) {
	const n, need = 4, 3
	answers := []error{nil, &driver.HeldError{}, &driver.HeldError{ExpiresIn: 1}, &driver.HeldError{ExpiresIn: time.Second}, &driver.HeldError{ExpiresIn: 2 * time.Second}}
	for code := range len(answers) * len(answers) * len(answers) * len(answers) {
		b, rest := ballot{members: n, need: need}, code
		var all []error
		for i := range n {
			all = append(all, answers[rest%len(answers)])
			b.add(answer[driver.Lease]{at: i, err: all[i]})
			rest /= len(answers)
		}
		want := time.Duration(0)
		for _, after := range []time.Duration{1, time.Second, 2 * time.Second} {
			free := 0
			for _, err := range all {
				var held *driver.HeldError
				if !errors.As(err, &held) || held.ExpiresIn > 0 && held.ExpiresIn <= after {
					free++
				}
			}
			if want == 0 && free >= need {
				want = after
			}
		}
		if b.granted < need {
			assert.Equal(t, want, b.expiresIn(), "%v", all)
		}
	}
}

func TestARenewalIsDecidedAsSoonAsPossible(t *testing.T) {
	for n := 1; n <= 5; n++ {
		q := &Store{members: make([]*member, n)}
		for limit := 1; limit <= 5; limit++ {
			need := 1 // so large that limit+1 holders cannot all have it if each store grants limit permits
			for (limit+1)*need <= n*limit {
				need++
			}
			every(n, func(seq []int) {
				can := outcomes(n, seq, func(k kinds) string {
					switch {
					case k[yea] >= need:
						return "renewed"
					case k[nay] > n-need:
						return "lost"
					}
					return "unknown"
				})
				tl := newTally(q, []driver.Lease{permitAt(q, limit)})
				for i, kind := range seq {
					p := tl.parts[i]
					p.out = []renewal.Outcome{[]renewal.Outcome{renewal.Renewed, renewal.Lost, renewal.Unknown}[kind]}
					tl.add(answer[*memberBatch]{at: i, value: p})
				}
				v := &tl.votes[0]
				assert.Equal(t, only(can, "renewed"), v.outcome() == renewal.Renewed, "%d of %d: %v", need, n, seq)
				assert.Equal(t, only(can, "lost"), v.outcome().IsLost(), "%d of %d: %v", need, n, seq)
				assert.Equal(t, v.outcome() == renewal.Unknown, tl.undecided == 1)
			})
		}
	}
}

// permitAt returns a permit that all members of a quorum have granted.
func permitAt(q *Store, limit int) driver.Lease {
	r := driver.Request{Key: "k", Owner: "a", TTL: time.Second, Mode: driver.Permit, Attrs: &driver.Attrs{Limit: limit}}
	g := &grant{quorum: q, owner: r.Owner, key: r.Key, copies: make([]memberCopy, len(q.members))}
	for i := range g.copies {
		g.copies[i].state = present
	}
	return driver.Lease{Request: r, State: g}
}

func TestAReleaseIsDecidedAsSoonAsPossible(t *testing.T) {
	counts(func(n, need int, seq []int) {
		can := outcomes(n, seq, func(k kinds) string {
			switch {
			case k[yea] >= need:
				return "released"
			case k[nay] > n-need:
				return "not held"
			}
			return "unknown"
		})
		c := releaseCount{members: n, need: need}
		for i, kind := range seq {
			c.add(answer[struct{}]{at: i, err: []error{nil, driver.ErrNotHeld, io.EOF}[kind]})
		}
		assert.Equal(t, only(can, "released") || only(can, "not held"), c.decided(), "%d of %d: %v", need, n, seq)
		if c.decided() {
			assert.Equal(t, can["released"], c.result() == nil)
			assert.Equal(t, can["not held"], errors.Is(c.result(), driver.ErrNotHeld))
		}
		assert.Equal(t, len(seq), c.answered)
	})
}

func TestErrorsOfMembersHaveTheirIndex(t *testing.T) {
	var errs memberErrors
	errs.add(0, nil)
	assert.Empty(t, errs)
	errs.add(1, io.EOF)
	require.EqualError(t, errs, "store 1: EOF")
	errs.add(2, io.ErrUnexpectedEOF)
	require.EqualError(t, errs, "store 1: EOF; store 2: unexpected EOF")
	require.ErrorIs(t, errs, io.EOF)
	require.ErrorIs(t, errs, io.ErrUnexpectedEOF)
}

// A sweep visits all entries, so it runs only after a quarter of their number was added.
func TestQuorumSweepsWhenAQuarterWasAdded(t *testing.T) {
	keep := func(q *Store, owner string) {
		q.remember(&grant{quorum: q, owner: owner, until: time.Now().Add(time.Minute)})
	}
	for name, add := range map[string]func(q *Store, i int){
		"grants":     func(q *Store, i int) { keep(q, fmt.Sprint(i)) },
		"tombstones": func(q *Store, i int) { q.addTombstone(fmt.Sprint(i)) },
		"both": func(q *Store, i int) {
			if i%2 == 0 {
				keep(q, fmt.Sprint(i))
			} else {
				q.addTombstone(fmt.Sprint(i))
			}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := newYes(t)
			size := func() int { return len(q.grants) + len(q.tombstones) }
			for i := range 5000 {
				add(q, i)
			}
			assert.Equal(t, 5000, size(), name)
			assert.Equal(t, 5000-4*minSweep, q.added, "%s: since the sweep at 4,096, all of them alive", name)
			time.Sleep(time.Minute)
			const swept = 5461 // 4,096 plus a third
			for i := 5000; i < swept; i++ {
				assert.Equal(t, i, size())
				add(q, i)
			}
			assert.Equal(t, swept-5000, size(), "%s: expired entries are removed", name)
			assert.Zero(t, q.added, name)
		})
	}
}

// Leases that were lost and never released are removed although later locks do not
// increase the size of the maps.
func TestQuorumRemovesLeasesThatWereNeverReleased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newYes(t)
		const many = 10_000
		for i := range many {
			_, err := q.Acquire(t.Context(), driver.Request{Key: fmt.Sprint(i), Owner: fmt.Sprint("lost ", i), TTL: time.Minute})
			require.NoError(t, err)
		}
		require.Len(t, q.grants, many)
		time.Sleep(time.Minute)
		for i := range many / 2 {
			l, err := q.Acquire(t.Context(), driver.Request{Key: "k", Owner: fmt.Sprint(i), TTL: time.Minute})
			require.NoError(t, err)
			require.NoError(t, q.Release(t.Context(), l))
		}
		assert.Empty(t, q.grants)
	})
}

// Calls above the bound fail, and the calls under way continue.
func TestTheCallsOfAMemberAreBounded(t *testing.T) {
	m := newMember(&yes{})
	for name, op := range map[string]struct {
		counter interface {
			Store(int64)
			Load() int64
		}
		most int64
		call func() error
	}{
		"acquire": {&m.calls, maxMemberCalls, func() error {
			_, err := m.acquire(t.Context(), driver.Request{})
			return err
		}},
		"renew":   {&m.renews, maxMemberRenews, func() error { return m.renew(t.Context(), nil, nil) }},
		"release": {&m.calls, maxMemberCalls, func() error { return m.release(t.Context(), driver.Lease{}) }},
	} {
		op.counter.Store(op.most - 1)
		require.NoError(t, op.call(), name)
		op.counter.Store(op.most)
		require.ErrorIs(t, op.call(), errBusyMember, name)
		assert.Equal(t, op.most, op.counter.Load(), "%s: an ended call is not counted", name)
	}
}
