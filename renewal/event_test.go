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
	}))
	assert.Len(t, r.ring, recorderSize)
}

func TestTheRecorderKeepsTheLatestEvents(t *testing.T) {
	var r recorder
	for i := range recorderSize + 10 {
		r.add(Event{Kind: EventStalled, Count: i})
	}
	events := r.take()
	require.Len(t, events, recorderSize)
	assert.Equal(t, 10, events[0].Count)
	assert.Equal(t, recorderSize+9, events[recorderSize-1].Count)
}

// Losses between which nothing has happened share the copy of the events.
func TestLossesShareTheirEvents(t *testing.T) {
	var r recorder
	r.add(Event{Kind: EventStalled})
	first := r.take()
	assert.Same(t, &first[0], &r.take()[0])
	r.add(Event{Kind: EventFailed})
	assert.Len(t, r.take(), 2)
	assert.Len(t, first, 1, "a copy does not change")
}

func TestTheTextsOfEvents(t *testing.T) {
	at := time.Date(2026, 1, 2, 12, 0, 10, 0, time.UTC)
	for want, e := range map[string]Event{
		"12:00:10.000 renewal due, not sent: 4 calls of its lane under way":                 {Kind: EventDue, Count: 4},
		"12:00:10.000 renewal sent, not confirmed: 10s, late 2ms":                           {Kind: EventAttempt, Took: 10 * time.Second, Late: 2 * time.Millisecond},
		"12:00:10.000 ownership denied: the lease is missing":                               {Kind: EventDenied, Detail: LostMissing.found()},
		"12:00:10.000 renewed slowly: 300 leases, 2s, late 1ms":                             {Kind: EventSlow, Leases: 300, Took: 2 * time.Second, Late: time.Millisecond},
		"12:00:10.000 process stalled: 3s":                                                  {Kind: EventStalled, Took: 3 * time.Second},
		"12:00:10.000 server unreachable: localhost:6379: timeout":                          {Kind: EventUnreachable, Detail: "localhost:6379: timeout"},
		"12:00:10.000 dead connection: localhost:6379":                                      {Kind: EventDeadConn, Detail: "localhost:6379"},
		"12:00:10.000 clock stepped: -2s":                                                   {Kind: EventClockStep, Took: -2 * time.Second},
		"12:00:10.000 server changed: localhost:6379: run_id 1 is now 2":                    {Kind: EventServerChanged, Detail: "localhost:6379: run_id 1 is now 2"},
		"12:00:10.000 holder told":                                                          {Kind: EventLost},
		"12:00:10.000 EventKind(200)":                                                       {Kind: 200},
		"12:00:10.000 batch failed: 2 leases, 1 lost, 1 not confirmed, 5ms, closed by peer": {Kind: EventFailed, Leases: 2, Lost: 1, Failed: 1, Took: 5 * time.Millisecond, Err: errPeer},
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
	w.Record(Event{Kind: EventDeadConn})
	assert.Zero(t, w.recorder.n)
}
