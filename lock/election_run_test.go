package lock_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/locktest"
	"github.com/leasewheel/leasewheel/lock/memstore"
	"github.com/leasewheel/leasewheel/wheel"
)

var errWork = errors.New("work failed")

// leads returns the name of the leader, "" if there is none.
func (b *bench) leads() string {
	b.t.Helper()
	info, err := b.mem.Inspect(context.Background(), "e")
	require.NoError(b.t, err)
	if len(info.Holders) == 0 {
		return ""
	}
	return info.Holders[0].Metadata
}

func TestRunLeadsUntilTheWorkIsDone(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		require.NoError(t, b.Election("e", "a").Run(ctx, func(ctx context.Context, leadership *lock.Held) error {
			assert.Equal(t, "a", b.leads())
			assert.True(t, leadership.Valid())
			assert.Positive(t, leadership.Token())
			settle(2 * ttl)
			require.NoError(t, b.Election("e", "a").Proclaim(ctx, leadership, "half done"))
			assert.Equal(t, "half done", b.leads())
			return ctx.Err()
		}))
		assert.Empty(t, b.leads(), "it has resigned")
		assert.Equal(t, 1, b.calls(locktest.Wait))
	})
}

// The work stops first: the next candidate leads when lead has returned.
func TestRunResignsAfterTheWorkHasStopped(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		errShutdown := errors.New("shutdown")
		running, cancel := context.WithCancelCause(ctx)
		ended := make(chan error, 1)
		started := time.Now()
		go func() {
			ended <- b.Election("e", "a").Run(running, func(ctx context.Context, _ *lock.Held) error {
				<-ctx.Done()
				assert.ErrorIs(t, context.Cause(ctx), errShutdown)
				time.Sleep(20 * time.Second) // stops the work
				assert.Equal(t, "a", b.leads())
				return ctx.Err() // which is not the cause
			})
		}()
		synctest.Wait()
		time.AfterFunc(time.Minute, func() { cancel(errShutdown) })
		next, err := b.Election("e", "b").Campaign(ctx)
		require.NoError(t, err)
		assert.Equal(t, 80*time.Second, time.Since(started))
		err = <-ended
		require.ErrorIs(t, err, errShutdown)
		require.EqualError(t, err, `lock: run "e": shutdown`)
		require.NoError(t, next.Unlock(ctx))
	})
}

// A leader that loses its leadership campaigns again when its work has stopped.
func TestRunWaitsForTheWorkAfterALoss(t *testing.T) {
	for _, returned := range []error{nil, errWork} {
		waiting(t, nil, func(t *testing.T, b *bench) {
			var terms []uint64
			require.NoError(t, b.Election("e", "a").Run(ctx, func(ctx context.Context, leadership *lock.Held) error {
				if terms = append(terms, leadership.Token()); len(terms) > 1 {
					return nil
				}
				b.mem.Delete("e")
				<-ctx.Done()
				assert.ErrorIs(t, context.Cause(ctx), lock.ErrLost)
				campaigns := b.calls(locktest.Wait)
				settle(ttl) // the work stops late
				assert.Equal(t, campaigns, b.calls(locktest.Wait))
				assert.Empty(t, b.leads())
				return returned
			}))
			require.Len(t, terms, 2, "it leads again")
			assert.Greater(t, terms[1], terms[0])
		})
	}
}

// The work may unlock a leadership that it knows to be lost. If nobody has noticed the loss, resigning
// shows it.
func TestRunCampaignsAgainAfterALoss(t *testing.T) {
	for name, lead := range map[string]func(ctx context.Context, leadership *lock.Held){
		"unlocked by the work": func(ctx context.Context, leadership *lock.Held) {
			<-ctx.Done()
			assert.ErrorIs(t, leadership.Unlock(ctx), lock.ErrLost)
		},
		"found by Unlock": func(context.Context, *lock.Held) {},
	} {
		waiting(t, nil, func(t *testing.T, b *bench) {
			terms := 0
			require.NoError(t, b.Election("e", "a").Run(ctx, func(ctx context.Context, leadership *lock.Held) error {
				if terms++; terms == 1 {
					b.mem.Delete("e")
					lead(ctx, leadership)
				}
				return nil
			}))
			assert.Equal(t, 2, terms, name)
		})
	}
}

func TestRunResignsIfTheWorkPanics(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		assert.PanicsWithValue(t, "oops", func() {
			_ = b.Election("e", "a").Run(ctx, func(context.Context, *lock.Held) error { panic("oops") })
		})
		assert.Empty(t, b.leads())
	})
}

func TestRunCampaignsAgainAfterAnError(t *testing.T) {
	var log bytes.Buffer
	o := &lock.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))}
	waiting(t, o, func(t *testing.T, b *bench) {
		b.loseRequests(once(locktest.Wait, errIO))
		var starts []time.Duration
		began := time.Now()
		require.NoError(t, b.Election("e", "a").Run(ctx, func(_ context.Context, leadership *lock.Held) error {
			starts = append(starts, time.Since(began))
			switch len(starts) {
			case 9:
				return leadership.Unlock(ctx) // lead may resign itself
			case 8:
				time.Sleep(time.Minute) // a term that lasted
			}
			return errWork
		}))
		require.Len(t, starts, 9)
		assert.GreaterOrEqual(t, starts[0], 50*time.Millisecond, "after the campaign that failed")
		assert.LessOrEqual(t, starts[0], 100*time.Millisecond)
		assert.GreaterOrEqual(t, starts[7]-starts[6], 5*time.Second, "pauses grow")
		assert.LessOrEqual(t, starts[7]-starts[6], 10*time.Second)
		assert.LessOrEqual(t, starts[8]-starts[7], time.Minute+100*time.Millisecond, "and begin anew")
		synctest.Wait() // a goroutine writes the records
		assert.Equal(t, 9, strings.Count(log.String(), "campaign again after an error"))
		assert.Contains(t, log.String(), "work failed")
		assert.Contains(t, log.String(), "connection reset")
		assert.Empty(t, b.leads())
	})
}

func TestRunReturnsPermanentErrors(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		never := func(context.Context, *lock.Held) error {
			assert.Fail(t, "it leads")
			return nil
		}
		var none context.Context
		for want, err := range map[string]error{
			"not made by a Client":    (*lock.Election)(nil).Run(ctx, never),
			"the context is nil":      b.Election("e", "a").Run(none, never),
			"the function is nil":     b.Election("e", "a").Run(ctx, nil),
			"the name of a candidate": b.Election("e", "").Run(ctx, never),
			"bad key":                 b.Election("", "a").Run(ctx, never),
			"Terms.MaxHold":           b.With(lock.Terms{MaxHold: 1}).Election("e", "a").Run(ctx, never),
		} {
			require.ErrorContains(t, err, want)
		}
		held, err := b.RWMutex("other").RLock(ctx)
		require.NoError(t, err)
		require.ErrorIs(t, b.Election("other", "a").Run(ctx, never), lock.ErrWrongType)
		require.NoError(t, held.Unlock(ctx))
		require.NoError(t, b.Election("e", "a").Run(ctx, func(ctx context.Context, _ *lock.Held) error {
			assert.ErrorIs(t, b.Election("e", "a").Run(ctx, never), lock.ErrHeldByContext)
			return nil
		}))
		require.NoError(t, b.Close(ctx))
		require.ErrorIs(t, b.Election("e", "a").Run(ctx, never), lock.ErrClosed)
	})
}

func TestRunEndsWithItsContext(t *testing.T) {
	waiting(t, nil, func(t *testing.T, b *bench) {
		leader, err := b.Election("e", "a").Campaign(ctx)
		require.NoError(t, err)
		limited, cancel := context.WithTimeout(ctx, time.Second)
		defer cancel()
		err = b.Election("e", "b").Run(limited, func(context.Context, *lock.Held) error { return nil })
		require.EqualError(t, err, `lock: run "e": context deadline exceeded`, "while it campaigns")
		require.NoError(t, leader.Unlock(ctx))

		limited, cancel = context.WithTimeout(ctx, time.Hour)
		defer cancel()
		start := time.Now()
		err = b.Election("e", "b").Run(limited, func(context.Context, *lock.Held) error { return errWork })
		require.EqualError(t, err, `lock: run "e": context deadline exceeded`, "while it pauses")
		assert.Equal(t, time.Hour, time.Since(start))

		for _, c := range []struct {
			returned error
			text     string
		}{
			{nil, `lock: run "e": context deadline exceeded`},
			{context.DeadlineExceeded, `lock: run "e": context deadline exceeded`},
			{errWork, `lock: run "e": context deadline exceeded: work failed`},
		} {
			limited, cancel := context.WithTimeout(ctx, time.Second)
			err = b.Election("e", "b").Run(limited, func(ctx context.Context, _ *lock.Held) error {
				<-ctx.Done()
				return c.returned
			})
			cancel()
			require.EqualError(t, err, c.text)
			require.ErrorIs(t, err, context.DeadlineExceeded)
			assert.Empty(t, b.leads())
		}
	})
}

func TestRunEndsWithItsClient(t *testing.T) {
	for name, lead := range map[string]func(context.Context, *lock.Held) error{
		"leading": func(ctx context.Context, _ *lock.Held) error {
			<-ctx.Done()
			return context.Cause(ctx)
		},
		"pausing": func(context.Context, *lock.Held) error { return errWork },
	} {
		t.Run(name, func(t *testing.T) {
			waiting(t, nil, func(t *testing.T, b *bench) {
				start := time.Now()
				time.AfterFunc(time.Hour+time.Second, func() { assert.NoError(t, b.Close(ctx)) })
				err := b.Election("e", "a").Run(ctx, lead)
				require.EqualError(t, err, `lock: run "e": client is closed`)
				assert.Equal(t, time.Hour+time.Second, time.Since(start))
			})
		})
	}
}

// A closed engine ends the leadership, and there will be no other.
func TestRunEndsWithTheEngineOfItsClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine, err := wheel.New(nil)
		require.NoError(t, err)
		client, err := lock.New(locktest.Plain(memstore.New()), &lock.Options{Scheduler: engine})
		require.NoError(t, err)
		err = client.Election("e", "a").Run(ctx, func(ctx context.Context, _ *lock.Held) error {
			engine.Close()
			<-ctx.Done()
			return nil
		})
		require.ErrorIs(t, err, lock.ErrClosed)
		err = client.Election("e", "a").Run(ctx, func(context.Context, *lock.Held) error { return nil })
		require.Error(t, err)
		_ = client.Close(ctx)
	})
}
