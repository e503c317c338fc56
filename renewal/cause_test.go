package renewal_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
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

// lossOf returns the loss of an entry, and logs what was seen.
func lossOf(t *testing.T, e *renewal.Entry[string]) *renewal.LostError {
	t.Helper()
	<-e.Done()
	var lost *renewal.LostError
	require.ErrorAs(t, e.Err(), &lost)
	t.Logf("%v: %v", lost.Cause(), lost.Seen())
	return lost
}

func TestTheCauseOfALoss(t *testing.T) {
	refused := &net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}
	answering := func(err error) func(context.Context, string) (renewal.Outcome, error) {
		return func(context.Context, string) (renewal.Outcome, error) { return renewal.Unknown, err }
	}
	const noLane = 8 // no lease has it
	for name, c := range map[string]struct {
		answer  func(context.Context, string) (renewal.Outcome, error)
		changed int // the lane of which another server process answers, or noLane
		want    renewal.Cause
		seen    string
	}{
		"the server hangs":            {hang, noLane, renewal.CauseNoAnswer, `^(1 renewal|2 renewals) sent, no answer within \S+s$`},
		"connections are refused":     {answering(refused), noLane, renewal.CauseNetwork, `^2 renewals failed within \S+s$`},
		"a handshake is reset":        {answering(os.NewSyscallError("read", syscall.ECONNRESET)), noLane, renewal.CauseNetwork, `^2 renewals failed within \S+s$`},
		"the store answers an error":  {answering(errIO), noLane, renewal.CauseStoreError, `^2 renewals failed within \S+s$`},
		"nothing was sent":            {answering(fmt.Errorf("%w: %w", renewal.ErrNotSent, os.ErrDeadlineExceeded)), noLane, renewal.CauseUnknown, `^2 renewals not sent within \S+s$`},
		"nothing could be sent":       {answering(fmt.Errorf("%w: %w", renewal.ErrNotSent, refused)), noLane, renewal.CauseNetwork, `^2 renewals not sent within \S+s$`},
		"the key is missing":          {denying(renewal.LostMissing), noLane, renewal.CauseKeyMissing, `^the store has no such lease$`},
		"another owner has it":        {denying(renewal.LostTaken), noLane, renewal.CauseTakenOver, `^another owner has the lease$`},
		"the store does not tell why": {denying(renewal.Lost), noLane, renewal.CauseUnknown, `^$`},
		"the server has changed":      {denying(renewal.LostMissing), 0, renewal.CauseFailover, `^the store has no such lease; another server process answered: server$`},
		"all servers have changed":    {denying(renewal.LostMissing), renewal.AllLanes, renewal.CauseFailover, `^the store has no such lease; another server process answered: server$`},
		"another server has changed":  {denying(renewal.LostMissing), 7, renewal.CauseKeyMissing, `^the store has no such lease$`},
		"a fail-over was too slow":    {hang, 0, renewal.CauseFailover, `another server process answered: server$`},
	} {
		t.Run(name, func(t *testing.T) {
			onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
				watchdog := newWatchdog(t, e, &store{answer: c.answer}, nil)
				// What happens before the grant explains nothing.
				watchdog.Record(renewal.Event{Kind: renewal.EventServerChanged, Detail: "too early"})
				watchdog.Record(renewal.Event{Kind: renewal.EventServerChanged, Lane: renewal.AllLanes, Detail: "too early"})
				advance(time.Second)
				if c.changed != noLane {
					time.AfterFunc(time.Second, func() {
						watchdog.Record(renewal.Event{Kind: renewal.EventServerChanged, Lane: c.changed, Detail: "server"})
						watchdog.Record(renewal.Event{Kind: renewal.EventNoMessages, Lane: renewal.AllLanes, Detail: "explains no loss"})
					})
				}
				lost := lossOf(t, register(t, watchdog, "a"))
				assert.Equal(t, c.want, lost.Cause())
				assert.Regexp(t, c.seen, lost.Seen())
				assert.NotContains(t, lost.Error()+lost.Seen(), "\n")
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
		watchdog := newWatchdog(t, e, s, &renewal.Options{Policy: seam.Tuned(renewal.Policy{}, seam.Tuning{MaxBatch: 1})})
		register(t, watchdog, "b")
		lost := lossOf(t, register(t, watchdog, "a"))
		assert.Equal(t, renewal.CauseServerSlow, lost.Cause())
		assert.Contains(t, lost.Seen(), "the server took 6.667s for another renewal")
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
		assert.Regexp(t, `the process did not run for 2\d(\.\d+)?s`, lost.Seen())

		// A short pause that the lease survives is not the cause.
		other := newWatchdog(t, process, &store{answer: denying(renewal.LostMissing)}, nil)
		entry = register(t, other, "b")
		advance(1500 * time.Millisecond)
		process.stop(2 * time.Second)
		lost = lossOf(t, entry)
		assert.Equal(t, renewal.CauseKeyMissing, lost.Cause())
	})
}

// A process that gets too little CPU time cannot tell whether the server has answered.
func TestTooLittleCPUIsNotTheServersFault(t *testing.T) {
	for _, share := range []time.Duration{6, 8, 9} { // tenths of the time in which the process does not run
		onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
			process := &stopped{Scheduler: e}
			watchdog := newWatchdog(t, process, &store{answer: hang}, nil)
			entry := register(t, watchdog, "a")
			for entry.Err() == nil {
				process.stop(share * period / 50)
				time.Sleep(period / 5)
			}
			lost := lossOf(t, entry)
			assert.Contains(t, []renewal.Cause{renewal.CauseUnknown, renewal.CausePaused}, lost.Cause())
			assert.Contains(t, lost.Seen(), "the process did not run for ")
		})
	}
}

func TestAnEngineThatIsBlockedIsTheCause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		watchdog := newWatchdog(t, silent{}, new(store), nil)
		entry := register(t, watchdog, "a")
		advance(ttl)
		lost := lossOf(t, entry)
		assert.Equal(t, renewal.CauseEngineLate, lost.Cause())
		assert.Regexp(t, `^a renewal was due for \S+s, its timer had not fired$`, lost.Seen())
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
		assert.Contains(t, lost.Seen(), "a clock was stepped")
	})
}

// A step that takes no time from a lease is not the cause: a small one, and one back.
func TestAHarmlessStepOfTheClockIsNotTheCause(t *testing.T) {
	for _, step := range []time.Duration{time.Second, -time.Second, -time.Hour} {
		onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
			watchdog := newWatchdog(t, e, &store{answer: hang}, nil)
			entry := register(t, watchdog, "a")
			advance(2500 * time.Millisecond)
			stepWall(t, step)
			lost := lossOf(t, entry)
			assert.Equal(t, renewal.CauseNoAnswer, lost.Cause())
			assert.NotContains(t, lost.Seen(), "a clock was stepped")
		})
	}
}

func TestALimitNeedsNoEvidence(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		watchdog := newWatchdog(t, e, new(store), nil)
		entry, err := watchdog.Register("a", renewal.Grant{TTL: ttl, Sent: time.Now(), Until: time.Now().Add(time.Minute)})
		require.NoError(t, err)
		lost := lossOf(t, entry)
		assert.Equal(t, renewal.CauseLimit, lost.Cause())
		assert.Empty(t, lost.Seen())
	})
	bare := &renewal.LostError{Reason: renewal.ReasonNotOwned} // of no watchdog
	assert.Equal(t, renewal.CauseUnknown, bare.Cause())
	assert.Empty(t, bare.Seen())
	for c := renewal.CauseUnknown; c <= renewal.CauseClockStep; c++ {
		assert.NotContains(t, c.String(), "Cause(")
	}
	assert.Equal(t, "Cause(99)", renewal.Cause(99).String())
}

// A lease whose renewal waits for a free call is lost by the silence of the server, not by its own renewals.
func TestTheCauseInALaneThatIsBlocked(t *testing.T) {
	onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
		watchdog := newWatchdog(t, e, &store{answer: hang}, &renewal.Options{Policy: seam.Tuned(renewal.Policy{Timeout: time.Minute}, seam.Tuning{InFlight: 1, MaxBatch: 1})})
		registerFor(t, watchdog, "a", 2*ttl)
		for watchdog.Stats().InFlight == 0 {
			advance(time.Second)
		}
		lost := lossOf(t, register(t, watchdog, "b"))
		assert.Equal(t, renewal.CauseNoAnswer, lost.Cause())
		assert.Regexp(t, `^a renewal was due for \S+s and was not sent, 1 calls were under way$`, lost.Seen())
	})
}

// The error of a renewal before the last confirmed one is no evidence.
func TestACauseIsNotAnEarlierError(t *testing.T) {
	unanswered := func(context.Context, string) (renewal.Outcome, error) { return renewal.Unknown, nil }
	for _, c := range []struct {
		earlier error
		last    func(context.Context, string) (renewal.Outcome, error)
	}{
		{&net.OpError{Op: "dial", Net: "tcp", Err: syscall.ECONNREFUSED}, hang},
		{io.EOF, unanswered}, // no connection
	} {
		onEngines(t, func(t *testing.T, e engine, _ time.Duration) {
			var renewals atomic.Int64
			watchdog := newWatchdog(t, e, &store{answer: func(ctx context.Context, lease string) (renewal.Outcome, error) {
				switch renewals.Add(1) {
				case 1:
					return renewal.Unknown, c.earlier
				case 2:
					return renewal.Renewed, nil
				}
				return c.last(ctx, lease)
			}}, nil)
			lost := lossOf(t, register(t, watchdog, "a"))
			assert.Greater(t, renewals.Load(), int64(2))
			assert.Equal(t, renewal.CauseNoAnswer, lost.Cause())
			require.NotErrorIs(t, lost.Err, c.earlier)
		})
	}
}
