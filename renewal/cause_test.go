package renewal_test

import (
	"context"
	"io"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/seam"
	"github.com/leasewheel/leasewheel/renewal"
	"github.com/leasewheel/leasewheel/schedule"
)

// denying returns the answer of a store to each renewal.
func denying(lost renewal.Outcome) func(context.Context, string) (renewal.Outcome, error) {
	return func(context.Context, string) (renewal.Outcome, error) { return lost, nil }
}

// lossOf returns the loss of an entry, and logs its story.
func lossOf(t *testing.T, e *renewal.Entry[string]) *renewal.LostError {
	t.Helper()
	<-e.Done()
	var lost *renewal.LostError
	require.ErrorAs(t, e.Err(), &lost)
	t.Logf("%v\n%v", lost.Cause(), lost.Story())
	return lost
}

// kinds returns the kinds of the events of a story.
func kinds(s renewal.Story) (kinds []renewal.EventKind) {
	for _, e := range s {
		kinds = append(kinds, e.Kind)
	}
	return kinds
}

func TestTheCauseOfALoss(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	answering := func(err error) func(context.Context, string) (renewal.Outcome, error) {
		return func(context.Context, string) (renewal.Outcome, error) { return renewal.Unknown, err }
	}
	record := func(kind renewal.EventKind, lane int, after time.Duration) func(w *renewal.Watchdog[string]) {
		return func(w *renewal.Watchdog[string]) {
			time.AfterFunc(after, func() { w.Record(renewal.Event{Kind: kind, Lane: lane, Detail: "server"}) })
		}
	}
	for name, c := range map[string]struct {
		answer func(context.Context, string) (renewal.Outcome, error)
		events func(w *renewal.Watchdog[string])
		want   renewal.Cause
		tells  renewal.EventKind // an event of the story
	}{
		"the server hangs":            {answer: hang, want: renewal.CauseNoAnswer, tells: renewal.EventAttempt},
		"connections are refused":     {answer: answering(refused), want: renewal.CauseNetwork, tells: renewal.EventAttempt},
		"a handshake is reset":        {answer: answering(os.NewSyscallError("read", syscall.ECONNRESET)), want: renewal.CauseNetwork, tells: renewal.EventAttempt},
		"the store answers an error":  {answer: answering(errIO), want: renewal.CauseStoreError, tells: renewal.EventAttempt},
		"no connection can be opened": {answer: hang, events: record(renewal.EventUnreachable, 0, 15*time.Second), want: renewal.CauseNetwork, tells: renewal.EventUnreachable},
		"a connection is dead":        {answer: hang, events: record(renewal.EventDeadConn, 0, 15*time.Second), want: renewal.CauseNetwork, tells: renewal.EventDeadConn},
		"another lane is unreachable": {answer: hang, events: record(renewal.EventUnreachable, 7, 15*time.Second), want: renewal.CauseNoAnswer, tells: renewal.EventAttempt},
		"the key is missing":          {answer: denying(renewal.LostMissing), want: renewal.CauseKeyMissing, tells: renewal.EventDenied},
		"another owner has it":        {answer: denying(renewal.LostTaken), want: renewal.CauseTakenOver, tells: renewal.EventDenied},
		"the store does not tell why": {answer: denying(renewal.Lost), want: renewal.CauseUnknown, tells: renewal.EventDenied},
		"the server has changed": {
			answer: denying(renewal.LostMissing), events: record(renewal.EventServerChanged, 0, time.Second),
			want: renewal.CauseFailover, tells: renewal.EventServerChanged,
		},
		"another server has changed": {
			answer: denying(renewal.LostMissing), events: record(renewal.EventServerChanged, 7, time.Second),
			want: renewal.CauseKeyMissing, tells: renewal.EventDenied,
		},
	} {
		t.Run(name, func(t *testing.T) {
			onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
				watchdog := newWatchdog(t, e, &store{answer: c.answer}, nil)
				// What happens before the grant explains nothing.
				for _, kind := range []renewal.EventKind{renewal.EventServerChanged, renewal.EventUnreachable, renewal.EventDeadConn} {
					watchdog.Record(renewal.Event{Kind: kind, Detail: "too early"})
				}
				advance(time.Second)
				if c.events != nil {
					c.events(watchdog)
				}
				lost := lossOf(t, register(t, watchdog, "a"))
				assert.Equal(t, c.want, lost.Cause())
				story := lost.Story()
				assert.Contains(t, kinds(story), c.tells)
				assert.Equal(t, renewal.EventLost, story[len(story)-1].Kind)
				assert.NotContains(t, story.String(), "too early")
				assert.NotContains(t, lost.Error(), "\n")
			})
		})
	}
}

// The last renewal is behind the events that it has survived.
func TestACauseIsLaterThanTheLastRenewal(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		begun := time.Now()
		s := &store{answer: func(ctx context.Context, lease string) (renewal.Outcome, error) {
			if time.Since(begun) > time.Minute {
				return renewal.LostTaken, nil
			}
			return renewal.Renewed, nil
		}}
		watchdog := newWatchdog(t, e, s, nil)
		entry := register(t, watchdog, "a")
		advance(30 * time.Second)
		watchdog.Record(renewal.Event{Kind: renewal.EventServerChanged})
		lost := lossOf(t, entry)
		assert.Equal(t, renewal.CauseTakenOver, lost.Cause())
		assert.NotContains(t, kinds(lost.Story()), renewal.EventServerChanged)
	})
}

// An error that a later renewal has made good is no evidence.
func TestACauseIsNotAnEarlierError(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		n := 0
		s := &store{answer: func(ctx context.Context, lease string) (renewal.Outcome, error) {
			switch n++; n {
			case 1:
				return renewal.Unknown, &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
			case 2:
				return renewal.Renewed, nil
			}
			return hang(ctx, lease)
		}}
		watchdog := newWatchdog(t, e, s, &renewal.Options{Failures: -1, Timeout: time.Hour})
		lost := lossOf(t, register(t, watchdog, "a"))
		assert.Equal(t, renewal.ReasonExpired, lost.Reason)
		assert.Equal(t, renewal.CauseNoAnswer, lost.Cause())
	})
}

func TestSlowAnswersAreTheCause(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		begun := time.Now()
		s := &store{answer: func(ctx context.Context, lease string) (renewal.Outcome, error) {
			if lease == "b" || time.Since(begun) < 9*time.Second {
				time.Sleep(period * 2 / 3)
				return renewal.Renewed, nil
			}
			return hang(ctx, lease)
		}}
		watchdog := newWatchdog(t, e, s, &renewal.Options{MaxBatch: 1})
		register(t, watchdog, "b")
		lost := lossOf(t, register(t, watchdog, "a"))
		assert.Equal(t, renewal.CauseServerSlow, lost.Cause())
		assert.Contains(t, kinds(lost.Story()), renewal.EventSlow)
	})
}

// stopped is an engine of a process that can be stopped: nothing of it runs until it goes on.
type stopped struct {
	schedule.Scheduler
	until atomic.Int64 // in nanoseconds since 1970
}

// stop stops the process for the given time.
func (s *stopped) stop(d time.Duration) { s.until.Store(time.Now().Add(d).UnixNano()) }

func (s *stopped) AwaitRunning() { time.Sleep(time.Until(time.Unix(0, s.until.Load()))) }

func (s *stopped) Schedule(d time.Duration, task schedule.Task) (schedule.Timer, error) {
	return s.Scheduler.Schedule(d, stoppedTask{s, task})
}

type stoppedTask struct {
	engine *stopped
	task   schedule.Task
}

func (s stoppedTask) Run(timer schedule.Timer) {
	s.engine.AwaitRunning()
	s.task.Run(timer)
}

func TestAPauseOfTheProcessIsTheCause(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		process := &stopped{Scheduler: e}
		watchdog := newWatchdog(t, process, new(store), nil)
		entry := register(t, watchdog, "a")
		advance(4500 * time.Millisecond)
		process.stop(28 * time.Second)
		time.Sleep(28 * time.Second)
		require.ErrorIs(t, entry.Err(), renewal.ErrLost)
		lost := lossOf(t, entry)
		assert.Equal(t, renewal.CausePaused, lost.Cause())
		assert.Contains(t, kinds(lost.Story()), renewal.EventStalled)

		// A short pause that the lease survives is told, and is not the cause.
		other := newWatchdog(t, process, &store{answer: denying(renewal.LostMissing)}, nil)
		entry = register(t, other, "b")
		advance(1500 * time.Millisecond)
		process.stop(2 * time.Second)
		lost = lossOf(t, entry)
		assert.Equal(t, renewal.CauseKeyMissing, lost.Cause())
		assert.Contains(t, kinds(lost.Story()), renewal.EventStalled)
	})
}

func TestAnEngineThatIsBlockedIsTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watchdog := newWatchdog(t, silent{}, new(store), nil)
		entry := register(t, watchdog, "a")
		advance(ttl)
		lost := lossOf(t, entry)
		assert.Equal(t, renewal.CauseEngineLate, lost.Cause())
		assert.Contains(t, kinds(lost.Story()), renewal.EventDue)
	})
}

func TestAStepOfTheClockIsTheCause(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		watchdog := newWatchdog(t, e, &store{answer: hang}, nil)
		entry, other := register(t, watchdog, "a"), register(t, watchdog, "b")
		advance(2500 * time.Millisecond)
		stepWall(t, ttl)
		require.ErrorIs(t, entry.Err(), renewal.ErrLost, "before the watchdog compares the clocks")
		assert.Equal(t, renewal.CauseClockStep, lossOf(t, entry).Cause())
		lost := lossOf(t, other)
		assert.Equal(t, renewal.CauseClockStep, lost.Cause())
		assert.Contains(t, kinds(lost.Story()), renewal.EventClockStep)
	})
}

// A small step is told, and is not the cause.
func TestASmallStepOfTheClockIsNotTheCause(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		watchdog := newWatchdog(t, e, &store{answer: hang}, nil)
		entry := register(t, watchdog, "a")
		advance(2500 * time.Millisecond)
		stepWall(t, time.Second)
		lost := lossOf(t, entry)
		assert.Equal(t, renewal.CauseNoAnswer, lost.Cause())
		assert.Contains(t, kinds(lost.Story()), renewal.EventClockStep)
	})
}

func TestALimitHasNoStory(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		watchdog := newWatchdog(t, e, new(store), nil)
		entry, err := watchdog.Register("a", renewal.Grant{TTL: ttl, Sent: time.Now(), Until: time.Now().Add(time.Minute)})
		require.NoError(t, err)
		lost := lossOf(t, entry)
		assert.Equal(t, renewal.CauseLimit, lost.Cause())
		assert.Empty(t, lost.Story())
	})
	assert.Equal(t, renewal.CauseUnknown, (&renewal.LostError{Reason: renewal.ReasonNotOwned}).Cause())
}

// A lease that waits for a free call says so.
func TestTheStoryOfALaneThatIsBlocked(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		watchdog := newWatchdog(t, e, &store{answer: hang}, &renewal.Options{InFlight: 1, MaxBatch: 1, Timeout: time.Minute})
		registerFor(t, watchdog, "a", 2*ttl)
		for watchdog.Stats().InFlight == 0 {
			advance(time.Second)
		}
		lost := lossOf(t, register(t, watchdog, "b"))
		assert.Equal(t, renewal.CauseNoAnswer, lost.Cause())
		require.Equal(t, renewal.EventDue, lost.Story()[0].Kind)
		assert.Equal(t, 1, lost.Story()[0].Count)
	})
}

func TestTheTextOfAStory(t *testing.T) {
	defer seam.RenewalPhase.Store(nil)
	for phase, want := range map[float64][]string{
		0.5: {
			`renewal sent, not confirmed: 10s, late 2ms`,
			`batch failed: 1 leases, 1 not confirmed, 10s, context deadline exceeded`,
			`renewal sent, not confirmed: 10s, late 2ms`,
			`holder told`,
		},
		0.99: { // the deadline passes before the second failure
			`renewal sent, not confirmed: 10s, late 2ms`,
			`batch failed: 1 leases, 1 not confirmed, 10s, context deadline exceeded`,
			`renewal sent, not confirmed: late 2ms`,
			`deadline`,
			`holder told`,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			seam.RenewalPhase.Store(&phase)
			e := heap(t)
			defer e.Close()
			watchdog := newWatchdog(t, e, &store{answer: hang}, nil)
			lost := lossOf(t, register(t, watchdog, "a"))
			lines := strings.Split(lost.Story().String(), "\n")
			require.Len(t, lines, len(want))
			for i, line := range lines {
				assert.Regexp(t, `^\d\d:\d\d:\d\d\.\d{3} `+want[i]+`$`, line, "phase %v", phase)
			}
		})
	}
}

// Dump is called for failures, not for limits, and not for each of many losses.
func TestDumpIsCalledOnceInAMinute(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		var dumped, lost int
		watchdog := newWatchdog(t, e, &store{answer: failing}, &renewal.Options{Hooks: &renewal.Hooks{
			Dump: func(renewal.LostInfo) {
				assert.Equal(t, dumped > 0, lost > 1, "before Lost")
				dumped++
			},
			Lost: func(renewal.LostInfo) { lost++ },
		}})
		_, err := watchdog.Register("limited", renewal.Grant{TTL: ttl, Sent: time.Now(), Until: time.Now().Add(time.Second)})
		require.NoError(t, err)
		advance(2 * time.Second)
		assert.Equal(t, []int{0, 1}, []int{dumped, lost})
		for range 10 {
			register(t, watchdog, "a")
		}
		advance(ttl)
		assert.Equal(t, []int{1, 11}, []int{dumped, lost})
		advance(time.Minute)
		register(t, watchdog, "b")
		advance(ttl)
		assert.Equal(t, []int{2, 12}, []int{dumped, lost})
	})
}

// The error of a renewal before the last confirmed one is no evidence.
func TestACauseIsNotThatOfAnOlderError(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		renewals := 0
		watchdog := newWatchdog(t, e, &store{answer: func(context.Context, string) (renewal.Outcome, error) {
			renewals++
			switch renewals {
			case 1:
				return renewal.Unknown, io.EOF // no connection
			case 2:
				return renewal.Renewed, nil
			}
			return renewal.Unknown, nil
		}}, nil)
		lost := lossOf(t, register(t, watchdog, "a"))
		assert.Greater(t, renewals, 2)
		assert.Equal(t, renewal.CauseNoAnswer, lost.Cause())
		require.NoError(t, lost.Err)
	})
}
