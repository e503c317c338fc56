package histories

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// state is the state of one lock in the model.
type state struct {
	holder int // index of a tenure, or nobody
	token  uint64
}

const nobody = -1

// Model is what a history must satisfy.
type Model struct{ model porcupine.Model }

// Locks is the model of a lock: one holder at a time, and tokens that rise.
var Locks = Model{porcupine.Model{
	Init: func() any { return state{holder: nobody} },
	Step: func(s, input, _ any) (bool, any) {
		now, e := s.(state), input.(event)
		switch e.kind {
		case takes:
			return now.holder == nobody && e.token > now.token, state{e.tenure, e.token}
		case leaves:
			return now.holder == e.tenure, state{nobody, now.token}
		default:
			return now.holder != nobody, now
		}
	},
}}

// Tokens requires only rising tokens, for a server that may lose its data.
var Tokens = Model{porcupine.Model{
	Init: func() any { return uint64(0) },
	Step: func(s, input, _ any) (bool, any) {
		last, e := s.(uint64), input.(event)
		if e.kind != takes {
			return true, last
		}
		return e.token > last, e.token
	},
}}

// searchTime bounds the search for an order. A search that does not finish counts as a
// violation.
const searchTime = time.Minute

// Violations searches an order for each key, and returns a text for each key without one. Tenures
// that have not been added, because their users still run, may make a history look wrong.
func (h *History) Violations(m Model) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []string
	for key, of := range h.keys {
		ops := operations(of, h.calm)
		verdict, how := porcupine.CheckOperationsVerbose(m.model, ops, searchTime)
		if verdict != porcupine.Ok {
			out = append(out, fmt.Sprintf("%s: no order of the operations is valid: %s\n%s", key, verdict, explain(of, ops, how)))
		}
	}
	slices.Sort(out)
	return out
}

// explain shows the end of the longest valid order and the first operations that do not
// fit.
func explain(of []Tenure, ops []porcupine.Operation, how porcupine.LinearizationInfo) string {
	var best []int
	for _, partition := range how.PartialLinearizations() {
		for _, order := range partition {
			if len(order) > len(best) {
				best = order
			}
		}
	}
	const shownOps = 6
	var lines []string
	for _, i := range best[max(len(best)-shownOps, 0):] {
		lines = append(lines, "  in order  "+format(of, ops[i]))
	}
	var rest []int
	for i := range ops {
		if !slices.Contains(best, i) {
			rest = append(rest, i)
		}
	}
	slices.SortFunc(rest, func(a, b int) int { return cmp.Compare(ops[a].Call, ops[b].Call) })
	for _, i := range rest[:min(shownOps, len(rest))] {
		lines = append(lines, "  no place  "+format(of, ops[i]))
	}
	return strings.Join(lines, "\n")
}

func format(of []Tenure, op porcupine.Operation) string {
	e := op.Input.(event)
	to := "open"
	if op.Return != never {
		to = time.Duration(op.Return).String()
	}
	t := of[e.tenure]
	return fmt.Sprintf("%v to %s: user %d, tenure %d %s, token %d, %s", time.Duration(op.Call), to, t.User, e.tenure, e.kind, t.Token, t.Ending)
}
