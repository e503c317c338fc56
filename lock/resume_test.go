package lock_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/locktest"
)

// other returns another client of the store of b, as of another process.
func (b *bench) other(o *lock.Options) *lock.Client {
	b.t.Helper()
	c, err := lock.New(unclosed{b.mem}, o)
	require.NoError(b.t, err)
	b.t.Cleanup(func() { _ = c.Close(context.Background()) })
	return c
}

func export(t *testing.T, h *lock.Held) string {
	t.Helper()
	text, err := h.Export()
	require.NoError(t, err)
	return text
}

func resume(t *testing.T, c *lock.Client, text string) *lock.Held {
	t.Helper()
	h, err := c.Resume(context.Background(), text)
	require.NoError(t, err)
	return h
}

func TestAnotherClientResumesALock(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		ctx := context.Background()
		c := b.other(&lock.Options{Terms: lock.Terms{Metadata: "of the second"}})
		first, err := b.With(lock.Terms{Metadata: "of the first"}).Mutex("m").Lock(ctx)
		require.NoError(t, err)
		second := resume(t, c, export(t, first))
		assert.Equal(t, first.Key(), second.Key())
		assert.Equal(t, first.Token(), second.Token())
		require.NoError(t, first.Detach())
		require.ErrorIs(t, first.Err(), lock.ErrDetached)
		require.ErrorIs(t, first.Err(), lock.ErrNotHeld)
		assert.False(t, first.Valid())
		<-first.Done()
		settle(3 * ttl)
		require.NoError(t, second.Err(), "the second client renews it")
		info, err := b.Inspect(ctx, "m")
		require.NoError(t, err)
		require.Equal(t, 1, info.Held)
		assert.Equal(t, "of the first", info.Holders[0].Metadata)
		require.NoError(t, second.Unlock(ctx))
		assert.Zero(t, b.mem.Len())
		require.ErrorIs(t, first.Unlock(ctx), lock.ErrNotHeld)
		require.ErrorIs(t, first.Detach(), lock.ErrNotHeld)
		_, err = first.Export()
		require.ErrorIs(t, err, lock.ErrDetached)
		require.NoError(t, c.Close(ctx))
	})
}

// The deadline counts from the sending of the request, with the TTL of the resuming client.
func TestTheDeadlineOfAResumedLock(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		ctx := context.Background()
		text := export(t, b.lock("k"))
		b.loseAnswers(func(ctx context.Context, op locktest.Op) error {
			if op == locktest.Renew {
				time.Sleep(5 * time.Second)
			}
			return nil
		})
		for _, terms := range []lock.Terms{{TTL: ttl}, {TTL: 2 * ttl}, {TTL: ttl / 2}, {TTL: ttl, Fixed: true}, {TTL: ttl, MaxHold: 7 * time.Second}} {
			sent := time.Now()
			h, err := b.With(terms).Resume(ctx, text)
			require.NoError(t, err)
			life := terms.TTL
			if terms.MaxHold > 0 {
				life = terms.MaxHold
			}
			assert.WithinRange(t, h.Deadline(), sent.Add(life*95/100), sent.Add(life), "%+v", terms)
			assert.True(t, h.Valid())
			require.NoError(t, h.Detach())
		}
	})
}

// A Fixed lease is not renewed after Resume, and a MaxHold counts from it.
func TestTheTermsOfTheResumingClientCount(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		h := b.lock("k")
		text := export(t, h)
		fixed := resume(t, b.With(lock.Terms{Fixed: true}), text)
		settle(ttl)
		require.ErrorIs(t, fixed.Err(), lock.ErrLost)
		require.ErrorContains(t, fixed.Err(), "fixed TTL")
		require.NoError(t, h.Err(), "the other handle is renewed")
		bounded := resume(t, b.With(lock.Terms{MaxHold: 2 * ttl}), text)
		settle(2*ttl - time.Second)
		require.NoError(t, bounded.Err())
		settle(time.Second)
		require.ErrorContains(t, bounded.Err(), "MaxHold")
		b.lock("other")
	})
}

func TestAResumedLockCanBeEnteredAgain(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		h := resume(t, b.Client, export(t, b.lock("k")))
		ctx, stop := h.Context(context.Background())
		defer stop()
		_, err := b.Mutex("k").Lock(ctx)
		require.ErrorIs(t, err, lock.ErrHeldByContext)
		inner, err := b.Reentrant("k").Lock(ctx)
		require.NoError(t, err)
		assert.Equal(t, h.Token(), inner.Token())
		require.NoError(t, inner.Unlock(ctx))
	})
}

func TestResumeOfALockThatIsNotHeld(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		ctx := context.Background()
		released := b.lock("released")
		text := export(t, released)
		require.NoError(t, released.Unlock(ctx))
		_, err := b.Resume(ctx, text)
		require.ErrorIs(t, err, lock.ErrNotHeld)
		require.EqualError(t, err, `lock: resume "released": not held`)
		assert.Zero(t, b.mem.Len(), "Resume takes nothing")

		ended := b.lock("ended")
		text = export(t, ended)
		require.NoError(t, ended.Detach())
		settle(ttl)
		_, err = b.Resume(ctx, text)
		require.ErrorIs(t, err, lock.ErrNotHeld)
		assert.Zero(t, b.Stats().Renewal.Held)
	})
}

func TestResumesThatFail(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		ctx, cancel := context.WithCancelCause(context.Background())
		text := export(t, b.lock("k"))
		b.loseRequests(func(_ context.Context, op locktest.Op) error { return errIO })
		before := b.calls(locktest.Renew)
		_, err := b.Resume(ctx, text)
		require.ErrorIs(t, err, lock.ErrUnavailable)
		require.ErrorIs(t, err, errIO)
		assert.Equal(t, before+2, b.calls(locktest.Renew), "one failure is tolerated")
		b.heal()
		lost := false
		b.loseAnswers(func(_ context.Context, op locktest.Op) error {
			if op == locktest.Renew && !lost {
				lost = true
				return errIO
			}
			return nil
		})
		h, err := b.Resume(ctx, text)
		require.NoError(t, err)
		require.NoError(t, h.Detach())

		b.loseRequests(hang(locktest.Renew))
		start := time.Now()
		_, err = b.Resume(ctx, text)
		require.ErrorIs(t, err, lock.ErrUnavailable)
		assert.LessOrEqual(t, time.Since(start), 2*ttl)
		b.heal()

		_, err = b.Resume(nil, text) //nolint:staticcheck // the context is nil on purpose
		require.ErrorContains(t, err, "context is nil")
		_, err = (*lock.Client)(nil).Resume(ctx, text)
		require.Error(t, err)
		_, err = b.With(lock.Terms{TTL: 1}).Resume(ctx, text)
		require.ErrorIs(t, err, lock.ErrBadTTL)
		_, err = b.With(lock.Terms{MinHold: time.Second}).Resume(ctx, text)
		require.ErrorIs(t, err, errors.ErrUnsupported)
		cause := errors.New("enough")
		cancel(cause)
		_, err = b.Resume(ctx, text)
		require.ErrorIs(t, err, cause)
		require.NoError(t, b.Close(context.Background()))
		_, err = b.Resume(context.Background(), text)
		require.ErrorIs(t, err, lock.ErrClosed)
	})
}

// A lease whose acquisition had a request without an answer is released with a tombstone,
// also by the process that has resumed it.
func TestAResumedLeaseRemembersUnansweredRequests(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		failed := false
		b.loseAnswers(func(_ context.Context, op locktest.Op) error {
			if op == locktest.Acquire && !failed {
				failed = true
				return errIO
			}
			return nil
		})
		h, err := b.Mutex("k").TryLock(context.Background())
		require.NoError(t, err)
		var released []driver.Lease
		c, err := lock.New(unclosed{releaseSpy{b.mem, &released}}, nil)
		require.NoError(t, err)
		resumed := resume(t, c, export(t, h))
		require.NoError(t, h.Detach())
		require.NoError(t, resumed.Unlock(context.Background()))
		assert.True(t, released[0].Unanswered)
		require.NoError(t, c.Close(context.Background()))
		b.closed.Store(true)
	})
}

// The string and the owner are in no error, text or log.
func TestAnExportedLeaseIsSecret(t *testing.T) {
	var log strings.Builder
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	waiting(t, &lock.Options{Logger: logger}, func(t *testing.T, b *bench) {
		ctx := context.Background()
		h := b.lock("k")
		text := export(t, h)
		raw, err := base64.RawURLEncoding.DecodeString(text[strings.Index(text, ".")+1:])
		require.NoError(t, err)
		owner := string(regexp.MustCompile(`[A-Z2-7]{13}:[\w-]{22}`).Find(raw))
		require.NotEmpty(t, owner)
		require.NoError(t, h.Unlock(ctx))
		for _, bad := range []string{text, text[:len(text)-1], text + "A", "x" + text} {
			_, err := b.Resume(ctx, bad)
			require.Error(t, err)
			for _, shown := range []string{fmt.Sprintf("%v %+v %#v", err, err, err), log.String()} {
				assert.NotContains(t, shown, text[20:40])
				assert.NotContains(t, shown, owner)
			}
		}
		held := resume(t, b.Client, export(t, b.lock("l")))
		for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
			assert.NotContains(t, fmt.Sprintf(format, held), "lwlease")
		}
	})
}

func TestHooksSeeAResumedLock(t *testing.T) {
	var seen []lock.Outcome
	note := func(_ context.Context, i lock.HookInfo) { seen = append(seen, i.Outcome) }
	hooks := &lock.Hooks{Acquired: note, Refused: note, Released: note, Lost: note}
	waiting(t, nil, func(t *testing.T, b *bench) {
		ctx := context.Background()
		c := b.other(&lock.Options{Hooks: hooks})
		h := b.lock("k")
		text := export(t, h)
		one := resume(t, c, text)
		require.NoError(t, one.Detach())
		synctest.Wait()
		two := resume(t, c, text)
		require.NoError(t, two.Unlock(ctx))
		_, err := c.Resume(ctx, text)
		require.ErrorIs(t, err, lock.ErrNotHeld)
		require.NoError(t, c.Close(ctx))
		assert.Equal(t, []lock.Outcome{lock.OutcomeAcquired, lock.OutcomeDetached, lock.OutcomeAcquired, lock.OutcomeUnlocked, lock.OutcomeError}, seen)
	})
}
