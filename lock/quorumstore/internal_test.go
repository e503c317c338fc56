package quorumstore

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/ctxtest"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// yes is a store that grants every request.
type yes struct {
	driver.Base
	id int
}

func (*yes) Acquire(_ context.Context, r driver.Request) (driver.Lease, error) {
	return driver.Lease{Request: r}, nil
}

func (*yes) Renew(_ context.Context, batch []driver.Lease, out []renewal.Outcome) error {
	for i := range batch {
		out[i] = renewal.Renewed
	}
	return nil
}
func (*yes) Release(context.Context, driver.Lease) error { return nil }

func newYes(t *testing.T) *Store {
	t.Helper()
	q, err := New(&yes{id: 0}, &yes{id: 1}, &yes{id: 2})
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, q.Close()) })
	return q
}

// Lost leases that are never released, and tombstones, are removed once they have ended.
func TestQuorumRemovesEndedLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newYes(t)
		r := driver.Request{Key: "k", Owner: "kept", TTL: 2 * time.Minute}
		kept, err := q.Acquire(t.Context(), r)
		require.NoError(t, err)
		for i := range 3 * minSweep {
			r := driver.Request{Key: fmt.Sprint(i), Owner: fmt.Sprint(i), TTL: time.Second}
			_, err := q.Acquire(t.Context(), r)
			require.NoError(t, err)
			if i%2 == 0 {
				require.NoError(t, q.Release(t.Context(), driver.Lease{Request: r, Unanswered: true}))
			}
			time.Sleep(time.Second)
			if i%60 == 0 {
				require.NoError(t, q.Renew(t.Context(), []driver.Lease{kept}, make([]renewal.Outcome, 1)))
			}
			q.mu.Lock()
			require.Less(t, len(q.grants)+len(q.tombstones), minSweep+1)
			q.mu.Unlock()
		}
		kept.State = nil
		assert.NotNil(t, q.find(&kept), "a renewed lease has not ended")
	})
}

// Failed attempts are removed once they have ended.
func TestQuorumRemovesFailedAttempts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newYes(t)
		for i := range 2 {
			q.members[i].calls.Store(maxMemberCalls)
		}
		for i := range 2 * minSweep {
			r := driver.Request{Key: "k", Owner: fmt.Sprint(i), TTL: time.Second}
			_, err := q.Acquire(t.Context(), r)
			require.ErrorIs(t, err, errBusyMember)
			time.Sleep(time.Second)
			q.mu.Lock()
			require.LessOrEqual(t, len(q.failed), minSweep)
			q.mu.Unlock()
		}
		before := len(q.failed)
		last := driver.Request{Key: "k", Owner: fmt.Sprint(2*minSweep - 1), TTL: time.Second}
		require.ErrorIs(t, q.Release(t.Context(), driver.Lease{Request: last}), driver.ErrNotHeld)
		assert.Len(t, q.failed, before-1)
	})
}

// A member with too many calls under way is skipped, and the others serve.
func TestQuorumBoundsTheCallsOfAMember(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newYes(t)
		for i := range 2 {
			q.members[i].calls.Store(maxMemberCalls)
			q.members[i].renews.Store(maxMemberRenews)
		}
		_, err := q.Acquire(t.Context(), driver.Request{Key: "k", Owner: "a", TTL: time.Second})
		require.ErrorIs(t, err, errBusyMember)
		q.members[0].calls.Store(0)
		l, err := q.Acquire(t.Context(), driver.Request{Key: "k", Owner: "a", TTL: time.Second})
		require.NoError(t, err)
		out := make([]renewal.Outcome, 1)
		require.ErrorIs(t, q.Renew(t.Context(), []driver.Lease{l}, out), errBusyMember)
		q.members[0].renews.Store(0)
		require.NoError(t, q.Renew(t.Context(), []driver.Lease{l}, out))
		assert.Equal(t, renewal.Renewed, out[0])
		q.members[0].calls.Store(maxMemberCalls)
		require.ErrorIs(t, q.Release(t.Context(), l), errBusyMember)
		q.members[0].calls.Store(0)
		require.NoError(t, q.Release(t.Context(), l))
	})
}

// A release of a lease without copies sends no request and keeps no memory.
func TestQuorumKeepsNothingOfAnEmptyRelease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newYes(t)
		l, err := q.Acquire(t.Context(), driver.Request{Key: "k", Owner: "a", TTL: time.Second})
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, q.Release(t.Context(), l))
		synctest.Wait()

		type key struct{}
		mine := new([64]byte)
		kept := weak.Make(mine)
		require.ErrorIs(t, q.Release(context.WithValue(t.Context(), key{}, mine), l), driver.ErrNotHeld)
		time.Sleep(time.Minute) // longer than every timeout
		runtime.GC()
		assert.Nil(t, kept.Value(), "the context must not be kept until the quorum is closed")
	})
}

// The members' context ends with the last answer and not before, so that slow members can
// finish after the others have decided.
func TestQuorumAsksUntilTheLastAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		open := ctxtest.New()
		q := newYes(t)
		q.ctx = open
		asked := make([]context.Context, len(q.members))
		answers, err := callAll(t.Context(), q, time.Hour, q.all(), func(ctx context.Context, i int) (int, error) {
			asked[i] = ctx
			time.Sleep(time.Duration(i) * time.Second)
			return 10 * i, ctx.Err()
		})
		require.NoError(t, err)
		for i := range q.members {
			a := <-answers
			assert.Equal(t, answer[int]{at: i, value: 10 * i}, a)
			synctest.Wait()
			last := i == len(q.members)-1
			assert.Equal(t, last, asked[i].Err() != nil, "after answer %d", i)
			assert.Equal(t, last, open.Registered() == 0)
		}
	})
}

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
					o := []renewal.Outcome{renewal.Renewed, renewal.Lost, renewal.Unknown}[kind]
					tl.add(answer[[]renewal.Outcome]{at: i, value: []renewal.Outcome{o}})
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
