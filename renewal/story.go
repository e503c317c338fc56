// This file is about the events that led to one loss.

package renewal

import (
	"slices"
	"time"
)

// attempt is a renewal that failed. The instants are on the monotonic clock.
type attempt struct{ due, sent, answered int64 }

// maxAttempts bounds the failed renewals in a row that an entry remembers.
const maxAttempts = 4

// lossRecord is what a LostError needs for its story. It never changes.
type lossRecord struct {
	clock    clock
	timing   *timing
	lane     int
	at       int64 // the loss, on the monotonic clock, as all instants below
	deadline instant
	due      int64 // when the latest renewal was due
	sent     int64 // when it was sent, if state is renewing
	state    state // before the loss
	stepped  bool  // a step of the wall clock has moved the deadline
	byWall   bool  // the wall clock alone had reached the deadline
	late     bool  // the process ran, but the timer engine had not started the renewal
	calls    int   // of the lane under way, if state is due
	tries    []attempt
	answer   Outcome // by which the store has ended the lease; otherwise Unknown
	events   []Event
}

// noteAttempt remembers a renewal that has failed. The caller holds mu.
func (e *Entry[L]) noteAttempt(sent, now instant) {
	end := e.completion()
	if e.failures == 0 {
		end.tries = end.tries[:0]
	}
	if len(end.tries) == maxAttempts {
		end.tries = append(end.tries[:0], end.tries[1:]...)
	}
	end.tries = append(end.tries, attempt{e.renewAt, sent.mono, now.mono})
}

// recordLoss returns what is known about the loss of the entry. The caller holds mu, and the
// entry has not ended yet.
func (w *Watchdog[L]) recordLoss(e *Entry[L], reason Reason, now instant) *lossRecord {
	if reason == ReasonLimitReached {
		return nil
	}
	if reason == ReasonExpired {
		w.noteStall(now)
		w.noteStep(now)
	}
	deadline := e.deadline()
	s := &lossRecord{
		clock: w.clock, timing: e.timing, lane: int(e.lane), at: now.mono, deadline: deadline, due: e.renewAt, state: e.state, stepped: e.stepped,
		byWall: now.wall >= deadline.wall && deadline.mono-now.mono > int64(e.margin),
		late:   e.state == waiting && w.monitor.lastRan() > e.renewAt+int64(e.margin),
		events: w.recorder.take(),
	}
	switch e.state {
	case renewing:
		s.sent = e.sentAt
	case due:
		if l := w.lanes[s.lane]; l != nil {
			s.calls = l.calls
		}
	}
	if end := e.completion(); e.failures > 0 {
		s.tries = end.tries
		if n := len(s.tries); n > 0 && s.tries[n-1].sent == s.sent { // it has just failed
			s.state = waiting
		}
	}
	s.answer = e.completion().answer
	return s
}

// firstDue returns when the first renewal was due that was not confirmed.
func (s *lossRecord) firstDue() int64 {
	if len(s.tries) > 0 {
		return s.tries[0].due
	}
	return min(s.due, s.at)
}

// begin returns an instant right before the last confirmed renewal.
func (s *lossRecord) begin() int64 {
	return max(s.deadline.mono-int64(s.timing.validity), s.firstDue()-int64(s.timing.period))
}

// relevant returns the events since the last confirmed renewal that concern the lease.
func (s *lossRecord) relevant(yield func(Event) bool) {
	from, to := s.clock.timeOf(s.begin()), s.clock.timeOf(s.at)
	for _, e := range s.events {
		if e.At.Before(from) || e.At.After(to) || e.Lane != s.lane && e.Lane != AllLanes {
			continue
		}
		if !yield(e) {
			return
		}
	}
}

// sees reports whether there is a relevant event of that kind.
func (s *lossRecord) sees(kind EventKind) bool {
	for e := range s.relevant {
		if e.Kind == kind {
			return true
		}
	}
	return false
}

// stalled returns how long the process was stalled between the first due renewal and the
// loss.
func (s *lossRecord) stalled() time.Duration {
	var sum time.Duration
	first, last := s.clock.timeOf(s.firstDue()), s.clock.timeOf(s.at)
	for e := range s.relevant {
		if e.Kind != EventStalled {
			continue
		}
		from, to := e.At.Add(-e.Took), e.At
		if from.Before(first) {
			from = first
		}
		if to.After(last) {
			to = last
		}
		sum += max(to.Sub(from), 0)
	}
	return sum
}

// Story returns the events that led to the loss: the renewals of the lease since the last
// confirmed one, what the watchdog and the store have noticed meanwhile, the deadline, and when
// the holder was told. It is nil for an error that no watchdog has made, and for ReasonLimitReached. If
// very much has happened, the earliest events are missing. Each call returns a new slice.
func (e *LostError) Story() Story {
	s := e.story
	if s == nil {
		return nil
	}
	story := slices.Collect(s.relevant)
	for _, t := range s.tries {
		story = append(story, Event{
			Kind: EventAttempt, At: s.clock.timeOf(t.sent), Lane: s.lane, Late: time.Duration(t.sent - t.due), Took: max(time.Duration(t.answered-t.sent), 1),
		})
	}
	switch {
	case s.state == renewing && s.answer.found() == "" && e.Reason != ReasonNotOwned:
		story = append(story, Event{Kind: EventAttempt, At: s.clock.timeOf(s.sent), Lane: s.lane, Late: time.Duration(s.sent - s.due)})
	case e.Reason == ReasonNotOwned:
		story = append(story, Event{Kind: EventDenied, At: s.clock.timeOf(s.at), Lane: s.lane, Detail: s.answer.found()})
	case s.state == due, s.due < s.at && len(s.tries) == 0:
		story = append(story, Event{Kind: EventDue, At: s.clock.timeOf(s.due), Lane: s.lane, Count: s.calls})
	}
	told := Event{Kind: EventLost, At: s.clock.timeOf(s.at), Lane: s.lane}
	if e.Reason == ReasonExpired {
		deadline := min(s.deadline.mono, s.at)
		story = append(story, Event{Kind: EventDeadline, At: s.clock.timeOf(deadline), Lane: s.lane})
		told.Late = time.Duration(s.at - deadline)
	}
	slices.SortStableFunc(story, func(a, b Event) int { return a.At.Compare(b.At) })
	return append(story, told)
}
