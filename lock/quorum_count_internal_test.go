package lock

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/renewal"
)

// The ways in which answers are counted are held against what they mean: a count is
// decided as soon as nothing that is still to come can change what comes out, and
// not before.

// kinds are the three kinds of answers to an operation: for it, against it, and those
// that say nothing.
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

// outcomes returns what can come out of a count whose first answers are these.
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

// counts calls f for all sizes of quorums, all numbers of those who are needed, and
// all sequences of their first answers.
func counts(f func(n, need int, seq []int)) {
	for n := 1; n <= 5; n++ {
		for need := n/2 + 1; need <= n; need++ {
			every(n, func(seq []int) { f(n, need, seq) })
		}
	}
}

func only(all map[string]bool, one string) bool { return len(all) == 1 && all[one] }

func TestABallotIsDecidedWhenItIs(t *testing.T) {
	counts(func(n, need int, seq []int) {
		can := outcomes(n, seq, func(k kinds) string {
			switch {
			case k[yea] >= need:
				return "granted"
			case k[yea]+k[nay] >= need:
				return "taken"
			}
			return "failed"
		})
		b := ballot{members: n, need: need}
		for i, kind := range seq {
			b.add(answer[Lease]{at: i, err: []error{nil, &HeldError{}, io.EOF}[kind]})
		}
		assert.Equal(t, len(can) == 1, b.decided(), "%d of %d: %v", need, n, seq)
		if len(can) > 1 {
			return
		}
		err := b.verdict("k")
		var held *HeldError
		assert.Equal(t, can["granted"], err == nil)
		assert.Equal(t, can["taken"], errors.As(err, &held))
		assert.Equal(t, can["failed"], errors.Is(err, io.EOF))
	})
}

// A majority is free when so many leases of others have ended that who has some copies
// already could get the rest.
func TestABallotTellsWhenAMajorityIsFree(t *testing.T) {
	const n, need = 4, 3
	answers := []error{nil, &HeldError{}, &HeldError{ExpiresIn: 1}, &HeldError{ExpiresIn: time.Second}, &HeldError{ExpiresIn: 2 * time.Second}}
	for code := range len(answers) * len(answers) * len(answers) * len(answers) {
		b, rest := ballot{members: n, need: need}, code
		var all []error
		for i := range n {
			all = append(all, answers[rest%len(answers)])
			b.add(answer[Lease]{at: i, err: all[i]})
			rest /= len(answers)
		}
		want := time.Duration(0)
		for _, after := range []time.Duration{1, time.Second, 2 * time.Second} {
			free := 0
			for _, err := range all {
				var held *HeldError
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

func TestARenewalIsDecidedWhenItIs(t *testing.T) {
	for n := 1; n <= 5; n++ {
		q := &quorum{members: make([]*member, n)}
		for limit := 1; limit <= 5; limit++ {
			need := 1 // so many that limit+1 holders could not have them, if each store grants limit
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
				tl := newTally(q, []Lease{permitAt(q, limit)})
				for i, kind := range seq {
					p := tl.parts[i]
					p.out = []renewal.Outcome{[]renewal.Outcome{renewal.Renewed, renewal.Lost, renewal.Unknown}[kind]}
					tl.add(answer[*memberBatch]{at: i, value: p})
				}
				v := &tl.votes[0]
				assert.Equal(t, only(can, "renewed"), v.outcome() == renewal.Renewed, "%d of %d: %v", need, n, seq)
				assert.Equal(t, only(can, "lost"), v.outcome() == renewal.Lost, "%d of %d: %v", need, n, seq)
				assert.Equal(t, v.outcome() == renewal.Unknown, tl.open == 1)
			})
		}
	}
}

// permitAt returns a permit that all members of a quorum have granted.
func permitAt(q *quorum, limit int) Lease {
	r := Request{Key: "k", Owner: "a", TTL: time.Second, Mode: Permit, Extra: &Extra{Limit: limit}}
	g := &grant{quorum: q, owner: r.Owner, key: r.Key, copies: make([]copied, len(q.members))}
	for i := range g.copies {
		g.copies[i].state = present
	}
	return Lease{Request: r, State: g}
}

func TestAReleaseIsDecidedWhenItIs(t *testing.T) {
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
		c := returns{members: n, need: need}
		for i, kind := range seq {
			c.add(answer[struct{}]{at: i, err: []error{nil, ErrNotHeld, io.EOF}[kind]})
		}
		assert.Equal(t, only(can, "released") || only(can, "not held"), c.decided(), "%d of %d: %v", need, n, seq)
		if c.decided() {
			assert.Equal(t, can["released"], c.verdict() == nil)
			assert.Equal(t, can["not held"], errors.Is(c.verdict(), ErrNotHeld))
		}
		assert.Equal(t, len(seq), c.answered)
	})
}

func TestTheErrorsOfMembersNameThem(t *testing.T) {
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

// A sweep looks at all there is, so it waits until that has doubled.
func TestQuorumSweepsWhenItHasTwiceAsMuch(t *testing.T) {
	keep := func(q *quorum, owner string) {
		q.keep(&grant{quorum: q, owner: owner, until: time.Now().Add(time.Minute)})
	}
	for name, add := range map[string]func(q *quorum, i int){
		"grants": func(q *quorum, i int) { keep(q, fmt.Sprint(i)) },
		"tombs":  func(q *quorum, i int) { q.refuse(fmt.Sprint(i)) },
		"both": func(q *quorum, i int) {
			if i%2 == 0 {
				keep(q, fmt.Sprint(i))
			} else {
				q.refuse(fmt.Sprint(i))
			}
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			q := newYes(t)
			size := func() int { return len(q.grants) + len(q.tombs) }
			for i := range 5000 {
				add(q, i)
			}
			assert.Equal(t, 5000, size(), name)
			assert.Equal(t, 8*minQuorumSweep, q.sweep, "%s: at 1,024, 2,048 and 4,096, all of them alive", name)
			time.Sleep(time.Minute)
			for i := range 8*minQuorumSweep - 5000 {
				assert.Equal(t, 5000+i, size())
				add(q, 5000+i)
			}
			assert.Equal(t, 8*minQuorumSweep-5000, size(), "%s: those that are over have gone", name)
			assert.Equal(t, 2*(8*minQuorumSweep-5000), q.sweep, name)
		})
	}
}

// What comes beyond the bound is refused; others go on.
func TestAMemberServesSoManyCalls(t *testing.T) {
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
			_, err := m.acquire(t.Context(), Request{})
			return err
		}},
		"renew":   {&m.renews, maxMemberRenews, func() error { return m.renew(t.Context(), nil, nil) }},
		"release": {&m.calls, maxMemberCalls, func() error { return m.release(t.Context(), Lease{}) }},
	} {
		op.counter.Store(op.most - 1)
		require.NoError(t, op.call(), name)
		op.counter.Store(op.most)
		require.ErrorIs(t, op.call(), errBusyMember, name)
		assert.Equal(t, op.most, op.counter.Load(), "%s: who has ended is not counted", name)
	}
}
