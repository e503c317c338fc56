package legacy

import (
	"encoding/json"
	"log/slog"
	"syscall/js"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// question is what the page asks.
type question struct {
	ID      int    `json:"id"`
	Do      string `json:"do"` // "play", "search" or "stop"
	Plan    plan   `json:"plan"`
	Seconds int    `json:"seconds"` // of a search
	Seed    uint64 `json:"seed"`    // of the first schedule of a search
}

// progress is how far a search has come.
type progress struct {
	Schedules int   `json:"schedules"`
	Faults    int   `json:"faults"`
	MS        int   `json:"ms"`
	Late      int   `json:"late"`     // schedules in which a late write reached a resource without fencing
	LatePlan  *plan `json:"latePlan"` // the first of them
	Broken    *plan `json:"broken"`   // the schedule that breaks a promise
	Done      bool  `json:"done"`
}

// answer is what the page gets. Exactly one of the last four fields is set.
type answer struct {
	ID        int         `json:"id"`
	Error     string      `json:"error,omitempty"`
	Protocols []*protocol `json:"protocols,omitempty"`
	Played    *played     `json:"played,omitempty"`
	Search    *progress   `json:"search,omitempty"`
}

// TestServe plays what the page asks for, until its worker ends.
func TestServe(t *testing.T) {
	// A write to stderr calls back from JavaScript at once, and the scheduler cannot nest that in a bubble.
	slog.SetDefault(slog.New(slog.DiscardHandler))
	asked := make(chan question, 100)
	js.Global().Set("ask", js.FuncOf(func(_ js.Value, args []js.Value) any {
		var q question
		if err := json.Unmarshal([]byte(args[0].String()), &q); err == nil {
			asked <- q
		}
		return nil
	}))
	post(t, answer{Protocols: protocols})
	for q := range asked {
		rules := protocolOf(q.Plan.Protocol)
		switch {
		case q.Do == "stop":
		case rules == nil || !q.Plan.isAllowed():
			post(t, answer{ID: q.ID, Error: "This schedule is not possible."})
		case q.Do == "play":
			result := playPlan(t, q.Plan, true)
			post(t, answer{ID: q.ID, Played: &result})
		case q.Do == "search":
			search(t, q, rules, asked)
		}
	}
}

// search plays random schedules until one breaks a promise, its time is over, or the page asks for
// something else.
func search(t *testing.T, q question, rules *protocol, asked chan question) {
	began := time.Now()
	p := progress{}
	for !p.Done {
		schedule := randomPlan(rules, q.Seed+uint64(p.Schedules))
		result := playPlan(t, schedule, false)
		p.Schedules++
		p.Faults += len(schedule.Faults)
		p.MS = int(time.Since(began).Milliseconds())
		switch {
		case result.breaksPromise():
			p.Broken, p.Done = &schedule, true
		case len(result.Violations) > 0:
			p.Late++
			if p.LatePlan == nil {
				p.LatePlan = &schedule
			}
		}
		p.Done = p.Done || p.MS >= 1000*q.Seconds || len(asked) > 0
		post(t, answer{ID: q.ID, Search: &p})
		time.Sleep(time.Millisecond) // the page may ask for something else
	}
}

func post(t *testing.T, a answer) {
	text, err := json.Marshal(a)
	require.NoError(t, err)
	js.Global().Call("postMessage", string(text))
}
