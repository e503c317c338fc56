package lock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// counted returns a function and the number of its calls so far.
func counted() (f func(), calls func() int) {
	c := make(chan struct{}, 10)
	return func() { c <- struct{}{} }, func() int {
		synctest.Wait()
		return len(c)
	}
}

func TestACallContextTellsOfItsEndOnce(t *testing.T) {
	for name, end := range map[string]func(life *lifetime, cancel, stop func()){
		"caller":           func(_ *lifetime, cancel, _ func()) { cancel() },
		"client":           func(life *lifetime, _, _ func()) { life.end() },
		"the call is over": func(_ *lifetime, _, stop func()) { stop() },
		"all": func(life *lifetime, cancel, stop func()) {
			cancel()
			life.end()
			stop()
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				life := new(lifetime)
				caller, cancel := context.WithCancel(t.Context())
				defer cancel()
				c := &callContext{caller: caller, life: life}
				notified, notifications := counted()
				called, calls := counted()
				undone, undoneCalls := counted()
				require.True(t, c.Notify(notified))
				require.False(t, c.Notify(notified), "one at a time")
				context.AfterFunc(c, called)
				require.True(t, context.AfterFunc(c, undone)())
				require.Zero(t, notifications()+calls())
				require.NoError(t, c.Err())

				end(life, cancel, func() { c.finish(endReturned) })
				assert.Equal(t, 1, notifications())
				assert.Equal(t, 1, calls())
				assert.Zero(t, undoneCalls())
				assert.False(t, c.StopNotify(), "it was called")
				<-c.Done()
				require.ErrorIs(t, c.Err(), context.Canceled)
				cause := context.Cause(c)

				require.True(t, c.Notify(notified))
				context.AfterFunc(c, called)
				assert.Equal(t, 2, notifications(), "the context has ended before")
				assert.Equal(t, 2, calls())
				assert.False(t, c.StopNotify())
				cancel()
				life.end()
				c.finish(endReturned)
				assert.Equal(t, cause, context.Cause(c), "the first reason stays")
				assert.Empty(t, life.calls)
			})
		})
	}
}

func TestACallContextSeesAtOnceWhatHasEnded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		closed := new(lifetime)
		closed.end()
		canceled, cancel := context.WithCancel(t.Context())
		cancel()
		late, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		time.Sleep(time.Second)
		synctest.Wait()
		for name, x := range map[string]struct {
			caller context.Context
			life   *lifetime
			cause  error
		}{
			"client":   {t.Context(), closed, errClientClosing},
			"both":     {canceled, closed, errClientClosing},
			"caller":   {canceled, new(lifetime), errCallerCanceled},
			"deadline": {late, new(lifetime), errCallerLate},
		} {
			c := &callContext{caller: x.caller, life: x.life}
			require.ErrorIs(t, c.Err(), context.Canceled, name)
			require.Equal(t, x.cause, context.Cause(c), name)
			for _, wait := range []func(*callContext){
				func(c *callContext) { <-c.Done() },
				func(c *callContext) {
					child, cancel := context.WithCancel(c)
					defer cancel()
					<-child.Done()
				},
				func(c *callContext) {
					f, calls := counted()
					require.True(t, c.Notify(f))
					require.Equal(t, 1, calls())
				},
			} {
				wait(&callContext{caller: x.caller, life: x.life})
			}
			assert.Empty(t, x.life.calls)
		}
	})
}

func TestAStoppedNotificationIsNotSent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		caller, cancel := context.WithCancel(t.Context())
		c := &callContext{caller: caller, life: new(lifetime)}
		f, calls := counted()
		require.True(t, c.Notify(f))
		require.True(t, c.StopNotify())
		cancel()
		require.Zero(t, calls())
	})
}

// The context of a release ends neither with its caller's nor with the client, but after its
// limit.
func TestALimitedContextEndsAfterItsLimit(t *testing.T) {
	for name, wait := range map[string]func(*callContext){
		"Done": func(c *callContext) { <-c.Done() },
		"a derived context": func(c *callContext) {
			child, cancel := context.WithTimeout(c, time.Hour)
			defer cancel()
			<-child.Done()
			assert.Equal(t, context.Cause(c), context.Cause(child))
		},
		"nothing": func(*callContext) { time.Sleep(time.Nanosecond) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				type key struct{}
				caller, cancel := context.WithCancel(context.WithValue(t.Context(), key{}, "value"))
				cancel()
				began := time.Now()
				c := newLimitedContext(caller, 3*time.Second)
				f, calls := counted()
				require.True(t, c.Notify(f))
				deadline, ok := c.Deadline()
				require.True(t, ok)
				require.Equal(t, began.Add(3*time.Second), deadline)
				require.Equal(t, "value", c.Value(key{}))
				time.Sleep(3*time.Second - 1)
				require.NoError(t, c.Err())
				require.Zero(t, calls())
				wait(c)
				assert.Equal(t, began.Add(3*time.Second), time.Now())
				assert.Equal(t, context.DeadlineExceeded, c.Err())
				assert.Equal(t, noAnswerError(3*time.Second), context.Cause(c))
				require.NotErrorIs(t, context.Cause(c), context.DeadlineExceeded)
			})
		})
	}
}
