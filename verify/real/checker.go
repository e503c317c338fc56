package real

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// state is that of one lock.
type state struct {
	holder int // a tenure, or nobody
	token  uint64
}

const nobody = -1

// aLock is what a lock may do: one holder at a time, and tokens that rise.
var aLock = porcupine.Model{
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
}

// aToken is what is left of that on a server that may lose its data.
var aToken = porcupine.Model{
	Init: func() any { return uint64(0) },
	Step: func(s, input, _ any) (bool, any) {
		last, e := s.(uint64), input.(event)
		if e.kind != takes {
			return true, last
		}
		return e.token > last, e.token
	},
}

// searchTime bounds the search for an order. What is not found by then counts as a
// violation, for nothing was shown.
const searchTime = time.Minute

// violations checks each key of a history; calm is until when nothing failed.
func (h *history) violations(model porcupine.Model, calm int64) []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	var out []string
	for key, of := range h.keys {
		ops := operations(of, calm)
		verdict, how := porcupine.CheckOperationsVerbose(model, ops, searchTime)
		if verdict != porcupine.Ok {
			out = append(out, fmt.Sprintf("%s: no order of what happened makes sense: %s\n%s", key, verdict, stuck(of, ops, how)))
		}
	}
	slices.Sort(out)
	return out
}

// stuck shows what the best order that was found could not contain, the first of it.
func stuck(of []tenure, ops []porcupine.Operation, how porcupine.LinearizationInfo) string {
	var best []int
	for _, partition := range how.PartialLinearizations() {
		for _, order := range partition {
			if len(order) > len(best) {
				best = order
			}
		}
	}
	const few = 6
	var lines []string
	for _, i := range best[max(len(best)-few, 0):] {
		lines = append(lines, "  in order  "+shown(of, ops[i]))
	}
	var rest []int
	for i := range ops {
		if !slices.Contains(best, i) {
			rest = append(rest, i)
		}
	}
	slices.SortFunc(rest, func(a, b int) int { return cmp.Compare(ops[a].Call, ops[b].Call) })
	for _, i := range rest[:min(few, len(rest))] {
		lines = append(lines, "  left over "+shown(of, ops[i]))
	}
	return strings.Join(lines, "\n")
}

func shown(of []tenure, op porcupine.Operation) string {
	e := op.Input.(event)
	to := "open"
	if op.Return != never {
		to = time.Duration(op.Return).String()
	}
	t := of[e.tenure]
	return fmt.Sprintf("%v to %s: user %d, tenure %d %s, token %d, %s", time.Duration(op.Call), to, t.user, e.tenure, e.kind, t.token, t.ending)
}
