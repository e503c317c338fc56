package check

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/natsstore"
	"github.com/leasewheel/leasewheel/lock/natsstore/check/internal/testnats"
	"github.com/leasewheel/leasewheel/lock/natsstore/internal/seam"
)

// waitResult is what Wait has returned.
type waitResult struct {
	lease driver.Lease
	err   error
}

// The waiters of these tests do not poll, so only a message wakes them.
func TestAReleaseWakesAWaiter(t *testing.T) {
	at := testnats.Start(t)
	here, there := open(t, at).(*natsstore.Store), open(t, at).(*natsstore.Store)
	*seam.Of(there).Poll = time.Hour
	nc := testnats.Connect(t, at).Conn()
	for name, release := range map[string]func(l driver.Lease) error{
		"Release": func(l driver.Lease) error { return here.Release(t.Context(), l) },
		"a release that reads the lock": func(l driver.Lease) error {
			l.State = nil
			return here.Release(t.Context(), l)
		},
		"ForceRelease": func(l driver.Lease) error { return here.ForceRelease(t.Context(), l.Key) },
		"a release that keeps the lock": func(l driver.Lease) error {
			l.Attrs = &driver.Attrs{KeepUntil: time.Now().Add(time.Second)}
			return here.Release(t.Context(), l)
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := driver.Request{Key: name, Owner: "here:" + name, TTL: time.Hour}
			l, err := here.Acquire(t.Context(), r)
			require.NoError(t, err)
			reads, err := nc.SubscribeSync("$JS.API.STREAM.MSG.GET." + stream)
			require.NoError(t, err)
			require.NoError(t, nc.Flush())
			got := make(chan waitResult, 1)
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			go func() {
				l, err := there.Wait(ctx, driver.Request{Key: name, Owner: "there:" + name, TTL: time.Hour}, func() {})
				got <- waitResult{l, err}
			}()
			for range 2 { // before and after it has subscribed
				_, err := reads.NextMsg(patience)
				require.NoError(t, err)
			}
			require.NoError(t, reads.Unsubscribe())
			assert.Equal(t, 1, waiters(t, at, there, name))
			require.NoError(t, release(l))
			next := <-got
			require.NoError(t, next.err)
			assert.Greater(t, next.lease.Token, l.Token)
			assert.Zero(t, waiters(t, at, there, name), "nobody waits any more")
		})
	}
}

func TestCloseEndsAWait(t *testing.T) {
	at := testnats.Start(t)
	s := open(t, at).(*natsstore.Store)
	*seam.Of(s).Poll = time.Hour
	_, err := s.Acquire(t.Context(), driver.Request{Key: "k", Owner: "a:1", TTL: time.Hour})
	require.NoError(t, err)
	got := make(chan error, 1)
	go func() {
		_, err := s.Wait(t.Context(), driver.Request{Key: "k", Owner: "b:1", TTL: time.Hour}, func() {})
		got <- err
	}()
	require.Eventually(t, func() bool { return waiters(t, at, s, "k") == 1 }, patience, time.Millisecond)
	require.NoError(t, s.Close())
	require.ErrorIs(t, <-got, driver.ErrStoreClosed)
}

// The stream does not answer the first request, and no server receives the second one. A third Wait
// sends nothing at all.
func TestAWaitTellsWhatItHasSent(t *testing.T) {
	at := testnats.Start(t)
	s := open(t, at)
	js := testnats.Connect(t, at)
	require.NoError(t, js.DeleteStream(t.Context(), stream))
	sub, err := js.Conn().SubscribeSync(subject("k"))
	require.NoError(t, err)
	require.NoError(t, sub.AutoUnsubscribe(1))
	require.NoError(t, js.Conn().Flush())
	for _, answered := range []bool{false, true} {
		r := driver.Request{Key: "k", Owner: "a:1", TTL: time.Hour}
		l, err := s.Wait(t.Context(), r, func() {})
		require.Error(t, err)
		assert.Equal(t, answered, errors.Is(err, driver.ErrNotSent))
		assert.Equal(t, !answered, l.Unanswered)
	}
}
