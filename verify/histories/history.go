// The history: tenures of users, with their outcomes and endings.

package histories

import (
	"errors"
	"math"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/leasewheel/leasewheel/lock"
)

// Outcome is the result of a Lock or TryLock.
type Outcome string

// The outcomes.
const (
	Granted Outcome = "granted"
	Taken   Outcome = "taken"   // TryLock found the lock taken
	Unknown Outcome = "unknown" // the lock may have been granted
)

// OutcomeOf returns the outcome of a call that returned err.
func OutcomeOf(err error) Outcome {
	switch {
	case err == nil:
		return Granted
	case errors.As(err, new(*lock.HeldError)):
		return Taken
	}
	return Unknown
}

// Ending is how a lease ended, as known to its holder.
type Ending string

// The endings.
const (
	Unlocked  Ending = "unlocked"  // Unlock succeeded
	Lost      Ending = "lost"      // lost before Unlock
	Uncertain Ending = "uncertain" // Unlock got no answer
)

// EndingOf returns the ending of a lease whose Unlock returned err.
func EndingOf(err error) Ending {
	switch {
	case err == nil:
		return Unlocked
	case errors.Is(err, lock.ErrLost):
		return Lost
	}
	return Uncertain
}

// Tenure is one call of Lock or TryLock and the lease that it got. Its instants are those of
// [History.Now].
type Tenure struct {
	User           int
	Reads          bool  // it is a reader
	Asked, Replied int64 // instants before and after the call
	Outcome        Outcome

	// The fields below are set if the lock was granted.

	Token  uint64
	Valid  int64 // an instant just before the last call of Valid that returned true, or Asked
	Ending Ending

	Leaving, Left int64 // instants before and after Unlock
}

// never is later than all instants.
const never = math.MaxInt64

// History holds the tenures of each key. It is safe for concurrent use.
type History struct {
	began time.Time

	mu   sync.Mutex // guards the fields below
	keys map[string][]Tenure
	calm int64 // refusals of TryLock count before this instant
}

// New returns an empty history that begins now.
func New() *History {
	return &History{began: time.Now(), keys: map[string][]Tenure{}, calm: never}
}

// Now returns the nanoseconds since the history began, by the monotonic clock.
func (h *History) Now() int64 { return int64(time.Since(h.began)) }

// Add adds a tenure that has ended.
func (h *History) Add(key string, t Tenure) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keys[key] = append(h.keys[key], t)
}

// EndCalm records that from an instant on, requests or answers may have been lost or late. Refusals
// of TryLock are checked only before: later the lock may have been granted to a user who never got
// the answer. The earliest instant counts.
func (h *History) EndCalm(instant int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.calm = min(h.calm, instant)
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
	reads  bool
}

// operations returns the operations that must have an order. triesMeet is as in Model.
func operations(of []Tenure, calm int64, triesMeet bool) []porcupine.Operation {
	var out []porcupine.Operation
	add := func(t Tenure, e event, from, to int64) {
		out = append(out, porcupine.Operation{ClientId: t.User, Input: e, Call: from, Return: to})
	}
	for i, t := range of {
		switch t.Outcome {
		case Taken:
			if t.Replied < calm && !unknownBefore(of, t.Replied) && (!triesMeet || !triedMeanwhile(of, i)) {
				add(t, event{kind: finds, tenure: i}, t.Asked, t.Replied)
			}
		case Granted:
			add(t, event{takes, i, t.Token, t.Reads}, t.Asked, t.Replied)
			add(t, event{kind: leaves, tenure: i, reads: t.Reads}, t.earliestEnd(), t.latestEnd())
		}
	}
	return out
}

// earliestEnd returns the earliest instant at which the lease may have ended.
func (t Tenure) earliestEnd() int64 {
	if t.Ending == Lost {
		return t.Valid
	}
	return t.Leaving
}

// latestEnd returns the latest instant at which the lease may have ended.
func (t Tenure) latestEnd() int64 {
	if t.Ending == Unlocked {
		return t.Left
	}
	return never
}

// triedMeanwhile returns whether another user found the lock taken while the user of a tenure tried.
func triedMeanwhile(of []Tenure, i int) bool {
	for j, t := range of {
		if j != i && t.Outcome == Taken && t.Asked < of[i].Replied && t.Replied > of[i].Asked {
			return true
		}
	}
	return false
}

// unknownBefore returns whether a user may hold the lock without knowing it.
func unknownBefore(of []Tenure, instant int64) bool {
	for _, t := range of {
		if t.Outcome == Unknown && t.Asked < instant {
			return true
		}
	}
	return false
}
