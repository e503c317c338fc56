package lock

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
)

func TestNext(t *testing.T) {
	end := step{end: true}
	again := func(s acquireState) step { return step{state: s} }
	type row struct {
		state    acquireState
		got      outcome
		failures int
		tryLock  step // of asking and extending, and of a store that cannot wait
		lock     step // of a store that can wait
		asks     step // of a Lock of a store that cannot
	}
	for _, r := range []row{
		{asking, taken, 0, end, step{state: waiting, pause: afterTaken}, step{state: asking, pause: afterTaken}},
		{waiting, taken, 0, end, step{state: waiting, pause: afterTaken}, step{state: asking, pause: afterTaken}},
		{extending, taken, 0, end, step{state: waiting, pause: afterTaken}, step{state: asking, pause: afterTaken}},
		{asking, unanswered, 1, again(asking), step{state: asking, pause: afterFailure}, step{state: asking, pause: afterFailure}},
		{asking, unanswered, 2, end, end, end},
		{extending, unanswered, 1, again(extending), again(extending), again(extending)},
		{extending, unanswered, 2, end, end, end},
		{waiting, unanswered, 1, end, end, end},
		{asking, late, 1, end, again(extending), again(extending)},
		{waiting, late, 1, end, again(extending), again(extending)},
		{extending, late, 2, end, end, end},
		{waiting, short, 0, again(extending), again(extending), again(extending)},
		{asking, hopeless, 0, end, end, end},
		{waiting, hopeless, 0, end, end, end},
		{extending, hopeless, 1, end, end, end},
	} {
		about := fmt.Sprintf("state %d, outcome %d, %d failures", r.state, r.got, r.failures)
		assert.Equal(t, r.tryLock, next(r.state, r.got, r.failures, false, false), "TryLock: "+about)
		assert.Equal(t, r.lock, next(r.state, r.got, r.failures, true, true), "Lock: "+about)
		assert.Equal(t, r.asks, next(r.state, r.got, r.failures, true, false), "Lock, no Wait: "+about)
	}
}

func TestExponentialBackoff(t *testing.T) {
	const ms = time.Millisecond
	for _, tc := range []struct {
		first, most time.Duration
		n           int
		want        time.Duration // upper bound; the lower bound is half of it
	}{
		{10 * ms, 250 * ms, -1, 10 * ms},
		{10 * ms, 250 * ms, 0, 10 * ms},
		{10 * ms, 250 * ms, 1, 20 * ms},
		{10 * ms, 250 * ms, 4, 160 * ms},
		{10 * ms, 250 * ms, 5, 250 * ms},
		{10 * ms, 250 * ms, math.MaxInt, 250 * ms},
		{10 * ms, math.MaxInt64, math.MaxInt, math.MaxInt64},
		{0, 0, 3, ms},
		{-time.Hour, 4 * ms, 1, 2 * ms},
		{time.Second, ms, 0, time.Second},
		{time.Second, ms, 9, time.Second},
	} {
		backoff := exponentialBackoff(tc.first, tc.most)
		least, most := tc.want, time.Duration(0)
		for range 1000 {
			d := backoff(tc.n)
			least, most = min(least, d), max(most, d)
		}
		assert.GreaterOrEqual(t, least, tc.want/2, "%+v", tc)
		assert.Less(t, most, tc.want, "%+v", tc)
		assert.Greater(t, most-least, tc.want/4, "at random: %+v", tc)
	}
}
