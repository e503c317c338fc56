package renewal_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/seam"
	"github.com/leasewheel/leasewheel/renewal"
)

func TestHooksReportBatchesAndLosses(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
		s := &store{answer: func(_ context.Context, lease string) (renewal.Outcome, error) {
			switch lease {
			case "lost":
				return renewal.Lost, nil
			case "unknown":
				return renewal.Unknown, errIO
			}
			time.Sleep(time.Second)
			return renewal.Renewed, nil
		}}
		var batches []renewal.BatchInfo
		var losses []renewal.LostInfo
		watchdog := newWatchdog(t, e, s, &renewal.Options{
			Policy: seam.Tuned(renewal.Policy{}, seam.Tuning{Align: period / 2}),
			Hooks: &renewal.Hooks{
				BatchDone: func(b renewal.BatchInfo) { batches = append(batches, b) },
				Lost:      func(l renewal.LostInfo) { losses = append(losses, l) },
			},
		})
		for _, lease := range []string{"ok", "lost", "unknown"} {
			register(t, watchdog, lease)
		}
		advance(period + 2*time.Second)
		var sum renewal.BatchInfo
		for _, b := range batches {
			sum.Size += b.Size
			sum.Renewed += b.Renewed
			sum.Lost += b.Lost
			sum.Unknown += b.Unknown
			sum.Took = max(sum.Took, b.Took)
			assert.LessOrEqual(t, b.Late, slack)
			if b.Unknown > 0 {
				assert.ErrorIs(t, b.Err, errIO)
			}
		}
		// The denial verifies the two others, once.
		assert.Equal(t, renewal.BatchInfo{Size: 3 + 2, Renewed: 1 + 1, Lost: 1, Unknown: 1 + 1, Took: time.Second}, sum)
		require.Len(t, losses, 1)
		assert.Equal(t, "lost", losses[0].Lease)
		assert.Equal(t, renewal.ReasonNotOwned, losses[0].Err.Reason)
	})
}

func TestHooksMayCallTheWatchdogAndBlock(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		s := &store{answer: func(_ context.Context, lease string) (renewal.Outcome, error) {
			if lease == "ok" {
				return renewal.Renewed, nil
			}
			return renewal.Lost, nil
		}}
		told := map[string]int{}
		var watchdog *renewal.Watchdog[string]
		watchdog = newWatchdog(t, e, s, &renewal.Options{Hooks: &renewal.Hooks{Lost: func(l renewal.LostInfo) {
			watchdog.Stats()
			time.Sleep(time.Minute)
			told[l.Lease.(string)]++
		}}})
		ok := register(t, watchdog, "ok")
		for i := range 50 {
			register(t, watchdog, fmt.Sprint("gone", i))
		}
		advance(2 * time.Hour)
		assert.NoError(t, ok.Err(), "a hook that blocks does not delay renewals")
		assert.Len(t, told, 50)
		for lease, n := range told {
			assert.Equal(t, 1, n, "%s is reported once", lease)
		}
	})
}

// The Logger has a goroutine of its own, so that a hook costs no record.
func TestAHookThatBlocksDelaysNoRecord(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		s := &store{answer: func(context.Context, string) (renewal.Outcome, error) { return renewal.Lost, nil }}
		var log strings.Builder
		blocked := make(chan struct{})
		watchdog := newWatchdog(t, e, s, &renewal.Options{
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Hooks:  &renewal.Hooks{Lost: func(renewal.LostInfo) { <-blocked }},
		})
		for range 3 {
			register(t, watchdog, "gone")
		}
		advance(time.Hour)
		synctest.Wait()
		assert.Equal(t, 3, strings.Count(log.String(), "renewal: lease lost"), &log)
		close(blocked)
	})
}

// A Renew that calls runtime.Goexit counts as one without an answer.
func TestARenewThatCallsGoexit(t *testing.T) {
	for name, exits := range map[string]int{"once": 1, "twice": 2} {
		t.Run(name, func(t *testing.T) {
			onEngines(t, func(t *testing.T, e engine, slack time.Duration) {
				left, victim := exits, ""
				s := &store{answer: func(_ context.Context, lease string) (renewal.Outcome, error) {
					if victim == "" {
						victim = lease
					}
					if lease == victim && left > 0 {
						left--
						runtime.Goexit()
					}
					return renewal.Renewed, nil
				}}
				reports := make(chan renewal.BatchInfo, 100)
				watchdog := newWatchdog(t, e, s, &renewal.Options{Policy: seam.Tuned(renewal.Policy{}, seam.Tuning{InFlight: 1, MaxBatch: 1, Align: period / 2}), Hooks: &renewal.Hooks{
					BatchDone: func(info renewal.BatchInfo) { reports <- info },
				}})
				entries := map[string]*renewal.Entry[string]{"a": register(t, watchdog, "a"), "b": register(t, watchdog, "b")}
				advance(period/2 + slack + 10*time.Millisecond)
				require.Len(t, s.seen(), 2, "the other due lease is renewed at once")
				require.Len(t, reports, 2)
				first := <-reports
				assert.Equal(t, 1, first.Unknown)
				require.ErrorContains(t, first.Err, "runtime.Goexit")
				advance(2 * ttl)
				entry := entries[victim]
				if exits == 2 {
					assert.Equal(t, renewal.ReasonFailed, reasonOf(t, entry.Err()))
					require.ErrorIs(t, entry.Err(), first.Err)
				} else {
					require.NoError(t, entry.Err(), "one failure is tolerated")
				}
				delete(entries, victim)
				for _, other := range entries {
					require.NoError(t, other.Err())
				}
				ended, cancel := context.WithCancel(context.Background())
				cancel()
				_, err := watchdog.Close(ended)
				require.NoError(t, err, "there is nothing to wait for")
			})
		})
	}
}

// secretLease has a secret that its LogValue leaves out. The attributes of a group are those of the
// record.
type secretLease struct{ key, secret string }

func (l secretLease) LogValue() slog.Value { return slog.GroupValue(slog.String("key", l.key)) }

type lostAlways struct{}

func (lostAlways) Renew(_ context.Context, batch []secretLease, out []renewal.Outcome) error {
	for i := range batch {
		out[i] = renewal.Lost
	}
	return nil
}

// At most 1,024 reports of batches are queued at any time.
func TestQueuedReportsOfBatchesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		engine := new(manual)
		gate := make(chan struct{})
		called := 0
		watchdog := newWatchdog(t, engine, new(store), &renewal.Options{Policy: seam.Tuned(renewal.Policy{}, seam.Tuning{MaxBatch: 1, InFlight: 1}), Hooks: &renewal.Hooks{
			BatchDone: func(renewal.BatchInfo) { <-gate; called++ },
		}})
		for i := range 1100 {
			register(t, watchdog, fmt.Sprint(i))
		}
		var dropped int
		for round := range 3 {
			advance(period)
			engine.run()
			advance(10 * time.Millisecond)
			before := dropped
			dropped = int(watchdog.Stats().DroppedHooks)
			assert.InDelta(t, 1100-1024, dropped-before, 1, "the reporter may take one before the others are queued")
			for range 1100 - (dropped - before) {
				gate <- struct{}{}
			}
			advance(0)
			assert.Equal(t, (round+1)*1100, called+dropped)
		}
	})
}

// The log of a loss contains the last error of the store.
func TestTheLogOfALossHasTheErrorOfTheStore(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		var log strings.Builder
		watchdog := newWatchdog(t, e, &store{answer: failing}, &renewal.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		entry := register(t, watchdog, "a")
		<-entry.Done()
		advance(0)
		assert.Contains(t, log.String(), errIO.Error())

		log.Reset()
		hung := newWatchdog(t, e, &store{answer: hang}, &renewal.Options{Policy: renewal.Policy{Failures: 1}, Logger: slog.New(slog.NewTextHandler(&log, nil))})
		stepWall(t, 0)
		entry = register(t, hung, "b")
		stepWall(t, validity)
		<-entry.Done()
		advance(0)
		assert.Contains(t, log.String(), "deadline")
		assert.NotContains(t, log.String(), "error=")
	})
}

// A nil Logger is slog.Default() at the time of the record.
func TestLossesAreLoggedByDefault(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		watchdog, err := renewal.New(e, lostAlways{}, nil)
		require.NoError(t, err)
		var log strings.Builder
		defer slog.SetDefault(slog.Default())
		slog.SetDefault(slog.New(slog.NewTextHandler(&log, nil)))
		_, err = watchdog.Register(secretLease{"orders", "canary"}, renewal.Grant{TTL: ttl, Sent: time.Now()})
		require.NoError(t, err)
		advance(period)
		assert.Contains(t, log.String(), `level=WARN msg="renewal: lease lost" key=orders reason="`+renewal.ReasonNotOwned.String()+`"`)
		assert.NotContains(t, log.String(), "canary")
		_, err = watchdog.Close(context.Background())
		require.NoError(t, err)
	})
}

// The log of a mass loss is bounded, and says that it is. Hooks get all losses.
func TestTheLogOfAMassLossIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := heap(t)
		defer e.Close()
		var log strings.Builder
		told := 0
		watchdog := newWatchdog(t, e, &store{answer: failing}, &renewal.Options{
			Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Hooks:  &renewal.Hooks{Lost: func(renewal.LostInfo) { told++ }},
		})
		for i := range 1000 {
			register(t, watchdog, fmt.Sprint(i))
		}
		advance(ttl)
		assert.Equal(t, 1000, told)
		assert.Equal(t, 100, strings.Count(log.String(), "lease lost"))
		assert.Equal(t, 1, strings.Count(log.String(), "are omitted"))
	})
}

// The end that a grant has set is no fault.
func TestTheEndOfTheGrantIsLoggedAsInfo(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		var log strings.Builder
		watchdog := newWatchdog(t, e, new(store), &renewal.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		for _, after := range []time.Duration{time.Second, time.Minute} {
			log.Reset()
			entry, err := watchdog.Register("a", renewal.Grant{TTL: ttl, Sent: time.Now(), Until: time.Now().Add(after)})
			require.NoError(t, err)
			<-entry.Done()
			require.ErrorIs(t, entry.Err(), renewal.ErrLost)
			advance(0)
			assert.Contains(t, log.String(), `level=INFO msg="renewal: lease reached the end that its grant has set"`)
			assert.NotContains(t, log.String(), "WARN")
		}
	})
}
