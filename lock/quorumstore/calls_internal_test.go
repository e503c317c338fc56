package quorumstore

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/ctxtest"
)

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
