package faulttest

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
)

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
