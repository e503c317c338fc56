package renewal

import (
	"sync"
	"time"
)

// recorderSize is the number of events that a flight recorder keeps. They take 33 kB, and a
// copy that the latest losses share takes as much.
const recorderSize = 256

// recorder is the flight recorder of a watchdog: a ring of the latest events. Batches that
// were renewed in time are counted in one event until something else happens, so that they do not
// push out what matters. Adding an event allocates nothing.
type recorder struct {
	mu       sync.Mutex // guards all below; nothing is called while it is held
	ring     []Event    // made for the first event
	n        uint64     // events added
	notable  uint64     // the value of n after the latest event that is not counted together
	counted  [8]tally   // the latest events of their kinds and lanes that count others
	changes  uint64     // events added or counted
	snapshot *snapshot  // the latest one
}

// tally is the place of an event that stands for several.
type tally struct {
	kind EventKind
	lane int
	at   uint64 // the value of n after it was added; 0 means none
}

// snapshot is a copy of the ring. It never changes.
type snapshot struct {
	events  []Event // in the order in which they were added
	at      int64   // when it was made, on the monotonic clock
	notable uint64
	changes uint64
}

// snapshotAge bounds how long losses share a snapshot while renewals are counted. The loss of
// many leases then takes at most 100 copies a second for them, and a story lacks only the
// renewals of this last time.
const snapshotAge = 10 * time.Millisecond

// add adds an event.
func (r *recorder) add(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.push(e)
	r.notable = r.n
}

// count adds an event, or counts it with the latest one of its kind and lane if nothing else
// has happened since.
func (r *recorder) count(e Event) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &r.counted[uint(e.Lane+int(e.Kind))%uint(len(r.counted))]
	if c.kind == e.Kind && c.lane == e.Lane && c.at > r.notable && r.n-c.at < recorderSize {
		same := &r.ring[(c.at-1)%recorderSize]
		same.At, same.Count, same.Leases = e.At, same.Count+1, same.Leases+e.Leases
		same.Late, same.Took = max(same.Late, e.Late), max(same.Took, e.Took)
		r.changes++
		return
	}
	e.Count = 1
	r.push(e)
	*c = tally{e.Kind, e.Lane, r.n}
}

// push puts an event into the ring. The caller holds mu.
func (r *recorder) push(e Event) {
	if r.ring == nil {
		r.ring = make([]Event, recorderSize)
	}
	r.ring[r.n%recorderSize] = e
	r.n++
	r.changes++
}

// take returns the events so far, for a loss at an instant on the monotonic clock. Losses
// between which nothing has happened share a snapshot, so that the loss of a million leases takes
// a few copies. If events were only counted between them, they share it for snapshotAge.
func (r *recorder) take(at int64) *snapshot {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.snapshot.serves(r, at) {
		return r.snapshot
	}
	size := min(r.n, recorderSize)
	s := &snapshot{events: make([]Event, 0, size), at: at, notable: r.notable, changes: r.changes}
	for i := r.n - size; i < r.n; i++ {
		s.events = append(s.events, r.ring[i%recorderSize])
	}
	r.snapshot = s
	return s
}

// serves reports whether a loss at that instant can share the snapshot. The caller holds mu.
func (s *snapshot) serves(r *recorder, at int64) bool {
	switch {
	case s == nil || s.notable != r.notable:
		return false
	case s.changes == r.changes:
		return true
	}
	return at-s.at < int64(snapshotAge)
}

// Record adds an event of the store to the flight recorder, from which a [LostError] tells
// its story. An Event without a time happened now. Events of kind EventSignal are counted
// together. Record takes a mutex that is never held for long, allocates nothing, and may be
// called from anywhere.
func (w *Watchdog[L]) Record(e Event) {
	if w.engine == nil {
		return
	}
	if e.At.IsZero() {
		e.At = time.Now()
	}
	if e.Kind == EventSignal {
		w.recorder.count(e)
		return
	}
	w.recorder.add(e)
}

// recordBatch records the outcome of a call of Renew. The caller holds mu.
func (w *Watchdog[L]) recordBatch(b *batch[L], info *BatchInfo) {
	e := Event{
		Kind: EventRenewed, At: w.clock.timeOf(b.sent.mono + int64(info.Took)), Lane: info.Lane, Late: info.Late, Took: info.Took,
		Leases: info.Size, Lost: info.Lost, Failed: info.Unknown, Err: info.Err,
	}
	switch {
	case info.Lost > 0 || info.Unknown > 0:
		e.Kind = EventFailed
	case info.Took >= b.attemptTimeout/slowDivisor:
		e.Kind = EventSlow
	default:
		w.recorder.count(e)
		return
	}
	w.recorder.add(e)
}
