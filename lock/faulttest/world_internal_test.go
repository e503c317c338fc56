package faulttest

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
)

// The time in which a function must return begins when its ctx ends, also by a fault.
func TestAFunctionMustReturnSoonAfterAFaultHasEndedItsCtx(t *testing.T) {
	sleeps := func(ctx context.Context, client *lock.Client, _ *Resource) error {
		return lock.Do(ctx, client.Mutex("orders"), func(context.Context, *lock.Held) error {
			time.Sleep(9 * time.Minute)
			return nil
		})
	}
	require.Empty(t, play(t, nil, false, sleeps).mistake)
	out := play(t, []fault{{at: 1, kind: terminate}}, false, sleeps)
	assert.Contains(t, out.mistake, "it does not heed its ctx")
}

func TestAStopBeforeAFencedWriteIsOneStop(t *testing.T) {
	out := play(t, []fault{{at: 1, kind: stop, d: ttl / 3, flip: true}}, true, func(ctx context.Context, client *lock.Client, r *Resource) error {
		return lock.Do(ctx, client.Mutex("orders"), func(ctx context.Context, held *lock.Held) error { return r.WriteFenced(ctx, held.Token()) })
	})
	require.Empty(t, out.mistake)
	assert.Equal(t, 1, strings.Count(strings.Join(out.trace, "\n"), "the process stops"), out.trace)
}

func TestShrink(t *testing.T) {
	ignoresCtx := func(ctx context.Context, client *lock.Client, r *Resource) error {
		return lock.Do(ctx, client.Mutex("orders"), func(context.Context, *lock.Held) error {
			for range 5 {
				_ = r.Write(context.Background())
				time.Sleep(5 * time.Second)
			}
			return nil
		})
	}
	faults := []fault{
		{at: 1, kind: loseRequest}, {at: 2, kind: loseAnswer}, {at: 3, kind: stop, d: 2 * ttl}, {at: 9, kind: terminate},
	}
	shown := play(t, faults, false, ignoresCtx)
	require.NotEmpty(t, shown.mistake)
	all := shown.report("all").Error()
	assert.Contains(t, all, "answer is lost")
	assert.Contains(t, all, "a write fails")

	shortest := shrink(t, faults, shown, false, ignoresCtx).report("shortest").Error()
	assert.Contains(t, shortest, "the process stops")
	assert.NotContains(t, shortest, "answer is lost")
	assert.NotContains(t, shortest, "a write fails")
}
