package renewal

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Recording an event allocates nothing, and the ring does not grow.
func TestTheRecorderDoesNotAllocate(t *testing.T) {
	var r recorder
	at := time.Now()
	r.add(Event{Kind: EventStalled, At: at})
	assert.Zero(t, testing.AllocsPerRun(2*recorderSize, func() {
		r.add(Event{Kind: EventStalled, At: at, Detail: "detail", Err: errGoexit})
		r.count(Event{Kind: EventRenewed, At: at, Leases: 7})
	}))
	assert.Len(t, r.ring, recorderSize)
}

// Batches without a fault are counted together, so that they do not push out what matters.
func TestTheRecorderCountsWhatIsUsual(t *testing.T) {
	var r recorder
	r.add(Event{Kind: EventStalled})
	for i := range 10 * recorderSize {
		r.count(Event{Kind: EventRenewed, Leases: 2, Lane: i % 2, Took: time.Duration(i)})
		r.count(Event{Kind: EventSignal})
	}
	events := r.take(0).events
	require.Len(t, events, 4)
	assert.Equal(t, Event{Kind: EventRenewed, Lane: 0, Count: 5 * recorderSize, Leases: 10 * recorderSize, Took: 10*recorderSize - 2}, events[1])
	assert.Equal(t, EventSignal, events[2].Kind)

	r.add(Event{Kind: EventFailed})
	r.count(Event{Kind: EventRenewed})
	events = r.take(1).events
	require.Len(t, events, 6, "what comes later is not counted with what came before")
	assert.Equal(t, 1, events[5].Count)
}

func TestTheRecorderKeepsTheLatestEvents(t *testing.T) {
	var r recorder
	for i := range recorderSize + 10 {
		r.add(Event{Kind: EventStalled, Count: i})
	}
	events := r.take(0).events
	require.Len(t, events, recorderSize)
	assert.Equal(t, 10, events[0].Count)
	assert.Equal(t, recorderSize+9, events[recorderSize-1].Count)
}

// Losses between which nothing has happened share the copy of the events. If renewals were
// counted between them, they share it for a short time only.
func TestLossesShareASnapshot(t *testing.T) {
	var r recorder
	r.add(Event{Kind: EventStalled})
	first := r.take(0)
	assert.Same(t, first, r.take(int64(time.Hour)), "nothing has happened")
	r.count(Event{Kind: EventRenewed})
	assert.Same(t, first, r.take(int64(snapshotAge)-1))
	second := r.take(int64(snapshotAge))
	require.Len(t, second.events, 2)
	r.count(Event{Kind: EventRenewed})
	third := r.take(int64(2 * snapshotAge))
	assert.Equal(t, 2, third.events[1].Count)
	r.add(Event{Kind: EventFailed})
	assert.Len(t, r.take(int64(2*snapshotAge)).events, 3, "a notable event counts at once")
	assert.Len(t, first.events, 1, "a snapshot does not change")
	assert.Equal(t, 1, second.events[1].Count)
}

// The loss of many leases copies the events a few times, even while other leases are renewed.
func TestManyLossesCopyTheEventsAFewTimes(t *testing.T) {
	var r recorder
	r.add(Event{Kind: EventStalled})
	copies, latest := 0, (*snapshot)(nil)
	for i := range 100_000 { // within a second
		r.count(Event{Kind: EventRenewed})
		s := r.take(int64(i) * int64(10*time.Microsecond))
		if s != latest {
			copies++
		}
		latest = s
	}
	assert.Equal(t, int(time.Second/snapshotAge), copies)
}

func TestTheTextsOfEvents(t *testing.T) {
	at := time.Date(2026, 1, 2, 12, 0, 10, 0, time.UTC)
	for want, e := range map[string]Event{
		"12:00:10.000 renewal due, not sent: 4 calls of its lane were under way":                {Kind: EventDue, Count: 4},
		"12:00:10.000 ownership denied: the lease is missing":                                   {Kind: EventDenied, Detail: DeniedMissing.String()},
		"12:00:10.000 renewed: 300 leases in 3 batches, 2ms, late 1ms":                          {Kind: EventRenewed, Leases: 300, Count: 3, Took: 2 * time.Millisecond, Late: time.Millisecond},
		"12:00:10.000 timer engine late by 2s":                                                  {Kind: EventEngineLate, Late: 2 * time.Second},
		"12:00:10.000 process stalled for 3s":                                                   {Kind: EventStalled, Took: 3 * time.Second},
		"12:00:10.000 GC pause of 10ms or more":                                                 {Kind: EventGCPause, Took: longGCPause},
		"12:00:10.000 connection opened: localhost:6379":                                        {Kind: EventConnected, Detail: "localhost:6379"},
		"12:00:10.000 connection ready after 2ms: localhost:6379":                               {Kind: EventReady, Took: 2 * time.Millisecond, Detail: "localhost:6379"},
		"12:00:10.000 server unreachable: localhost:6379: timeout":                              {Kind: EventUnreachable, Detail: "localhost:6379: timeout"},
		"12:00:10.000 dead connection: localhost:6379":                                          {Kind: EventDeadConn, Detail: "localhost:6379"},
		"12:00:10.000 keys moved: localhost:6380: serves slot 7":                                {Kind: EventMoved, Detail: "localhost:6380: serves slot 7"},
		"12:00:10.000 clock stepped by -2s":                                                     {Kind: EventClockStep, Took: -2 * time.Second},
		"12:00:10.000 lock handed over 2 times":                                                 {Kind: EventSignal, Count: 2},
		"12:00:10.000 server changed: localhost:6379: run_id 1 is now 2":                        {Kind: EventServerChanged, Detail: "localhost:6379: run_id 1 is now 2"},
		"12:00:10.000 holder told -1s":                                                          {Kind: EventLost, Late: -time.Second},
		"12:00:10.000 EventKind(200)":                                                           {Kind: 200},
		"12:00:10.000 batch failed: 2 leases in 1 batches, 0s, late 0s, 1 lost: closed by peer": {Kind: EventFailed, Leases: 2, Lost: 1, Err: errPeer},
	} {
		e.At = at
		assert.Equal(t, want, e.String())
	}
	assert.Equal(t, "Cause(99)", Cause(99).String())
	for c := range causeNames {
		assert.NotEmpty(t, Cause(c).String())
	}
}

type textError string

func (e textError) Error() string { return string(e) }

var errPeer = textError("closed by peer")

// A watchdog that was not made by New records nothing.
func TestTheZeroWatchdogRecordsNothing(t *testing.T) {
	var w Watchdog[int]
	w.Record(Event{Kind: EventMoved})
	assert.Zero(t, w.recorder.n)
}
