package renewal_test

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/renewal"
)

func TestHooksTellOfBatchesAndLosses(t *testing.T) {
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
		dog := newDog(t, e, s, &renewal.Options{
			Align: period / 2,
			Hooks: &renewal.Hooks{
				BatchDone: func(b renewal.BatchInfo) { batches = append(batches, b) },
				Lost:      func(l renewal.LostInfo) { losses = append(losses, l) },
			},
		})
		for _, lease := range []string{"ok", "lost", "unknown"} {
			register(t, dog, lease)
		}
		settle(period + 2*time.Second)
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
		assert.Equal(t, renewal.BatchInfo{Size: 3, Renewed: 1, Lost: 1, Unknown: 1, Took: time.Second}, sum)
		require.Len(t, losses, 1)
		assert.Equal(t, "lost", losses[0].Lease)
		assert.Equal(t, renewal.NotOwned, losses[0].Err.Reason)
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
		var dog *renewal.Watchdog[string]
		dog = newDog(t, e, s, &renewal.Options{Hooks: &renewal.Hooks{Lost: func(l renewal.LostInfo) {
			dog.Stats()
			time.Sleep(time.Minute)
			told[l.Lease.(string)]++
		}}})
		ok := register(t, dog, "ok")
		for i := range 50 {
			register(t, dog, fmt.Sprint("gone", i))
		}
		settle(2 * time.Hour)
		assert.NoError(t, ok.Err(), "a hook that blocks delays no renewal")
		assert.Len(t, told, 50)
		for lease, n := range told {
			assert.Equal(t, 1, n, "%s is reported once", lease)
		}
	})
}

func TestReportsOfBatchesAreBounded(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		release := make(chan struct{})
		called := 0
		dog := newDog(t, e, new(store), &renewal.Options{MaxBatch: 1, Hooks: &renewal.Hooks{
			BatchDone: func(renewal.BatchInfo) {
				<-release
				called++
			},
		}})
		for i := range 3000 {
			register(t, dog, fmt.Sprint(i))
		}
		settle(period + time.Second)
		unsaid := dog.Stats().Unsaid
		assert.Positive(t, unsaid)
		close(release)
		settle(0)
		assert.EqualValues(t, 3000, uint64(called)+unsaid)
		assert.LessOrEqual(t, called, 2048+1)
	})
}

// A hook that ends its goroutine, as t.FailNow does, takes nothing from the next.
func TestAHookThatExits(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		told := 0
		dog, err := renewal.New(e, lostAlways[string]{}, &renewal.Options{Hooks: &renewal.Hooks{Lost: func(renewal.LostInfo) {
			told++
			runtime.Goexit()
		}}})
		require.NoError(t, err)
		for i := range 20 {
			register(t, dog, fmt.Sprint(i))
		}
		settle(period + time.Second)
		assert.Equal(t, 20, told)
		_, err = dog.Close(context.Background())
		require.NoError(t, err)
	})
}

// So does a store that ends the goroutine of its Renew: it is one that gave no answer.
func TestARenewThatExits(t *testing.T) {
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
				dog := newDog(t, e, s, &renewal.Options{InFlight: 1, MaxBatch: 1, Align: period / 2, Hooks: &renewal.Hooks{
					BatchDone: func(info renewal.BatchInfo) { reports <- info },
				}})
				entries := map[string]*renewal.Entry[string]{"a": register(t, dog, "a"), "b": register(t, dog, "b")}
				settle(period/2 + slack + 10*time.Millisecond)
				require.Len(t, s.seen(), 2, "what is due too is renewed at once")
				require.Len(t, reports, 2)
				first := <-reports
				assert.Equal(t, 1, first.Unknown)
				require.ErrorContains(t, first.Err, "goroutine")
				settle(2 * ttl)
				entry := entries[victim]
				if exits == 2 {
					assert.Equal(t, renewal.Failed, reasonOf(t, entry.Err()))
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
				_, err := dog.Close(ended)
				require.NoError(t, err, "there is nothing to wait for")
			})
		})
	}
}

// secretLease must not be printed; it offers a name for the log.
type secretLease struct{ name, secret string }

func (l secretLease) LogValue() slog.Value { return slog.StringValue(l.name) }

func TestTheLogNamesLossesAndKeepsSecrets(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		var log strings.Builder
		dog, err := renewal.New(e, lostAlways[secretLease]{}, &renewal.Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
		require.NoError(t, err)
		_, err = dog.Register(secretLease{"orders", "canary"}, renewal.Grant{TTL: ttl, Sent: time.Now()})
		require.NoError(t, err)
		settle(period)
		assert.Contains(t, log.String(), "lease=orders")
		assert.Contains(t, log.String(), renewal.NotOwned.String())
		assert.NotContains(t, log.String(), "canary")
		_, err = dog.Close(context.Background())
		require.NoError(t, err)
	})
}

type lostAlways[L any] struct{}

func (lostAlways[L]) Renew(_ context.Context, batch []L, out []renewal.Outcome) error {
	for i := range batch {
		out[i] = renewal.Lost
	}
	return nil
}
