package lock

import (
	"fmt"
	"testing"

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
		{waiting, noWait, 0, again(asking), again(asking), again(asking)},
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
