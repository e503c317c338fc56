package real

import (
	"math"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// outcome is what came of asking for a lock.
type outcome string

const (
	granted outcome = "granted"
	taken   outcome = "taken"   // a TryLock that found it so
	unknown outcome = "unknown" // nobody can say whether it was granted
)

// ending is how a lease ended, as far as its holder knows.
type ending string

const (
	unlocked  ending = "unlocked"  // Unlock said so
	lost      ending = "lost"      // it was over before Unlock
	uncertain ending = "uncertain" // Unlock got no answer
)

// tenure is one call of Lock or TryLock and what followed. Instants are nanoseconds
// since the history began.
type tenure struct {
	user           int
	asked, replied int64 // around the call
	outcome        outcome
	token          uint64

	valid  int64 // the last instant at which it was known to be held
	ending ending

	leaving, left int64 // around Unlock
}

// never is after all that happens.
const never = math.MaxInt64

// history is what happened to some keys. Its methods are safe for concurrent use.
type history struct {
	began time.Time

	mu   sync.Mutex // guards keys
	keys map[string][]tenure
}

func newHistory() *history {
	return &history{began: time.Now(), keys: map[string][]tenure{}}
}

// now counts by the monotonic clock.
func (h *history) now() int64 { return int64(time.Since(h.began)) }

func (h *history) add(key string, t tenure) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.keys[key] = append(h.keys[key], t)
}

// What happens to a lock, for the model.
const (
	takes  = "takes"
	leaves = "leaves"
	finds  = "finds it taken"
)

// event is one thing that happened to a lock.
type event struct {
	kind   string
	tenure int // whose: its index in the history of the key
	token  uint64
}

// operations returns what the model must put into an order. Answers that the lock is
// taken are among them if they came before calm was over, when nothing was lost on
// the way; later it may have been taken by one who never learned of it.
func operations(of []tenure, calm int64) []porcupine.Operation {
	var out []porcupine.Operation
	add := func(t tenure, e event, from, to int64) {
		out = append(out, porcupine.Operation{ClientId: t.user, Input: e, Call: from, Return: to})
	}
	for i, t := range of {
		switch t.outcome {
		case taken:
			if t.replied < calm && !givenUpBefore(of, t.replied) {
				add(t, event{kind: finds, tenure: i}, t.asked, t.replied)
			}
		case granted:
			add(t, event{takes, i, t.token}, t.asked, t.replied)
			add(t, event{kind: leaves, tenure: i}, t.ends(), t.ended())
		}
	}
	return out
}

// ends is the earliest instant at which the lease may have ended.
func (t tenure) ends() int64 {
	if t.ending == lost {
		return t.valid
	}
	return t.leaving
}

// ended is the latest instant at which it may have ended.
func (t tenure) ended() int64 {
	if t.ending == unlocked {
		return t.left
	}
	return never
}

// givenUpBefore tells whether somebody may hold the lock without knowing it.
func givenUpBefore(of []tenure, instant int64) bool {
	for _, t := range of {
		if t.outcome == unknown && t.asked < instant {
			return true
		}
	}
	return false
}
