package lock

import (
	"context"
	"errors"
	"runtime"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/ctxtest"
)

// The contexts of clients and users last much longer than one call, so each call must remove
// its functions from them.
func TestACallLeavesNothingAtTheContextsItEndsWith(t *testing.T) {
	client := new(core)
	client.life, client.endLife = context.WithCancelCause(context.Background())
	defer client.endLife(nil)
	user := ctxtest.New()
	ctx, stop := client.whileOpen(user)
	require.NoError(t, ctx.Err())
	assert.EqualValues(t, 1, user.Registered())
	stop()
	assert.Zero(t, user.Registered())
	require.ErrorIs(t, ctx.Err(), context.Canceled)

	gone := func() weak.Pointer[ctxtest.Context] {
		user := ctxtest.New()
		_, stop := client.whileOpen(user)
		stop()
		return weak.Make(user)
	}()
	runtime.GC()
	assert.Nil(t, gone.Value(), "the client, which is not closed, does not refer to the call")
	require.NoError(t, client.life.Err())
}

// A store sees the values and the deadline of the caller, and a cause that no store returns as
// an answer.
func TestTheContextOfACall(t *testing.T) {
	type key struct{}
	for name, cause := range map[string]error{"HeldError": &HeldError{Key: "other"}, "ErrClosed": ErrClosed, "ErrNotHeld": ErrNotHeld, "its own": errors.New("own")} {
		for _, whose := range []string{"caller", "client"} {
			t.Run(name+" of the "+whose, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					client, endClient := context.WithCancelCause(context.Background())
					at := time.Now().Add(time.Hour)
					timed, stopTimed := context.WithDeadline(context.WithValue(t.Context(), key{}, "value"), at)
					defer stopTimed()
					caller, cancel := context.WithCancelCause(timed)
					ctx, stop := callContext(client, caller)
					defer stop()
					derived, stopDerived := context.WithTimeout(ctx, time.Minute)
					defer stopDerived()
					deadline, ok := ctx.Deadline()
					assert.True(t, ok)
					assert.Equal(t, at, deadline)
					assert.Equal(t, "value", derived.Value(key{}))
					if whose == "caller" {
						cancel(cause)
					} else {
						endClient(errClientClosing)
					}
					synctest.Wait()
					for _, ended := range []context.Context{ctx, derived} {
						assert.ErrorIs(t, ended.Err(), context.Canceled)
						require.ErrorAs(t, context.Cause(ended), new(*endedError))
						require.NotErrorIs(t, context.Cause(ended), cause)
					}
					cancel(nil)
					endClient(nil)
				})
			})
		}
	}
}

// A caller whose context never ends costs one object.
func TestTheContextOfACallWithoutEnd(t *testing.T) {
	type key struct{}
	client, endClient := context.WithCancelCause(t.Context())
	caller := context.WithValue(context.Background(), key{}, "value")
	assert.LessOrEqual(t, testing.AllocsPerRun(100, func() {
		_, stop := callContext(client, caller)
		stop()
	}), 1.0)
	ctx, stop := callContext(client, caller)
	defer stop()
	derived, stopDerived := context.WithTimeout(ctx, time.Minute)
	defer stopDerived()
	assert.Equal(t, "value", derived.Value(key{}))
	require.NoError(t, derived.Err())
	endClient(errClientClosing)
	for _, ended := range []context.Context{ctx, derived} {
		require.ErrorIs(t, ended.Err(), context.Canceled)
		require.ErrorAs(t, context.Cause(ended), new(*endedError))
	}
}

// lasting is a held lock that counts the functions registered for its end.
type lasting struct {
	handle
	waiting int
}

func (*lasting) err() error                                             { return nil }
func (*lasting) withOwner(ctx context.Context, _ *Held) context.Context { return ctx }
func (l *lasting) afterFunc(func(error)) (stop func() bool) {
	l.waiting++
	return func() bool {
		l.waiting--
		return true
	}
}

func TestAContextLeavesNothingAtItsLock(t *testing.T) {
	l := new(lasting)
	ctx, cancel := (&Held{handle: l}).Context(t.Context())
	require.NoError(t, ctx.Err())
	assert.Equal(t, 1, l.waiting)
	cancel()
	assert.Zero(t, l.waiting)
	require.ErrorIs(t, ctx.Err(), context.Canceled)
}
