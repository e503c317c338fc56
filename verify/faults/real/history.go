package real

import (
	"math"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// outcome is the result of a Lock or TryLock.
type outcome string

const (
	granted outcome = "granted"
	taken   outcome = "taken"   // TryLock found the lock taken
	unknown outcome = "unknown" // the lock may have been granted
)

// ending is how a lease ended, as known to its holder.
type ending string

const (
	unlocked  ending = "unlocked"  // Unlock succeeded
	lost      ending = "lost"      // lost before Unlock
	uncertain ending = "uncertain" // Unlock got no answer
)

// tenure is one call of Lock or TryLock and the lease that it got. Instants are
// nanoseconds since the start of the history.
type tenure struct {
	user           int
	asked, replied int64 // instants before and after the call
	outcome        outcome
	token          uint64

	valid  int64 // the last instant at which Valid was true
	ending ending

	leaving, left int64 // instants before and after Unlock
}

// never is later than all instants.
const never = math.MaxInt64

// history holds the tenures of each key. It is safe for concurrent use.
type history struct {
	began time.Time

	mu   sync.Mutex // guards keys
	keys map[string][]tenure
}

func newHistory() *history {
	return &history{began: time.Now(), keys: map[string][]tenure{}}
}

// now returns the nanoseconds since the start, by the monotonic clock.
func (h *history) now() int64 { return int64(time.Since(h.began)) }

func (h *history) add(key string, t tenure) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keys[key] = append(h.keys[key], t)
}

// Kinds of events in the model.
const (
	takes  = "takes"
	leaves = "leaves"
	finds  = "finds it taken"
)

// event is one operation on a lock.
type event struct {
	kind   string
	tenure int // index in the history of the key
	token  uint64
}

// operations returns the operations that must have an order. Refusals of TryLock count
// only before calm, when no message was lost. Later the lock may have been granted to a
// user who never got the answer.
func operations(of []tenure, calm int64) []porcupine.Operation {
	var out []porcupine.Operation
	add := func(t tenure, e event, from, to int64) {
		out = append(out, porcupine.Operation{ClientId: t.user, Input: e, Call: from, Return: to})
	}
	for i, t := range of {
		switch t.outcome {
		case taken:
			if t.replied < calm && !unknownBefore(of, t.replied) {
				add(t, event{kind: finds, tenure: i}, t.asked, t.replied)
			}
		case granted:
			add(t, event{takes, i, t.token}, t.asked, t.replied)
			add(t, event{kind: leaves, tenure: i}, t.earliestEnd(), t.latestEnd())
		}
	}
	return out
}

// earliestEnd returns the earliest instant at which the lease may have ended.
func (t tenure) earliestEnd() int64 {
	if t.ending == lost {
		return t.valid
	}
	return t.leaving
}

// latestEnd returns the latest instant at which the lease may have ended.
func (t tenure) latestEnd() int64 {
	if t.ending == unlocked {
		return t.left
	}
	return never
}

// unknownBefore returns whether a user may hold the lock without knowing it.
func unknownBefore(of []tenure, instant int64) bool {
	for _, t := range of {
		if t.outcome == unknown && t.asked < instant {
			return true
		}
	}
	return false
}
