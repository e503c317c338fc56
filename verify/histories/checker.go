// The models of a lock, and the search for an order that satisfies them.

package histories

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// state is the state of one lock in the model.
type state struct {
	writer  int    // index of a tenure, or nobody
	readers string // indexes of tenures, in an order of their own
	token   uint64 // the highest one
	written uint64 // that of the last writer
}

const nobody = -1

// Model is what a history must satisfy.
type Model struct {
	model     porcupine.Model
	triesMeet bool
}

// TriesMeet returns the model for a store in which one TryLock may be refused because of another
// one that is refused, too. On ZooKeeper a TryLock has a place in the queue until it gives up.
func (m Model) TriesMeet() Model {
	m.triesMeet = true
	return m
}

// Locks is the model of a lock: one holder at a time, or some readers. The token of a writer is higher
// than all before it, and that of a reader is higher than those of all writers before it.
var Locks = Model{model: porcupine.Model{
	Init: func() any { return state{writer: nobody} },
	Step: func(s, input, _ any) (bool, any) {
		now, e := s.(state), input.(event)
		switch {
		case e.kind == finds:
			return now.writer != nobody || now.readers != "", now
		case e.kind == takes && e.reads:
			ok := now.writer == nobody && e.token > now.written
			return ok, state{nobody, with(now.readers, e.tenure), max(now.token, e.token), now.written}
		case e.kind == takes:
			ok := now.writer == nobody && now.readers == "" && e.token > now.token
			return ok, state{e.tenure, "", e.token, e.token}
		case e.reads:
			left, ok := without(now.readers, e.tenure)
			return ok, state{now.writer, left, now.token, now.written}
		}
		return now.writer == e.tenure, state{nobody, now.readers, now.token, now.written}
	},
}}

// with adds a number to a set of them.
func with(set string, n int) string {
	all := append(strings.Fields(set), strconv.Itoa(n))
	slices.Sort(all)
	return strings.Join(all, " ")
}

// without removes a number from a set of them, and reports whether it was there.
func without(set string, n int) (string, bool) {
	all := strings.Fields(set)
	at := slices.Index(all, strconv.Itoa(n))
	if at < 0 {
		return set, false
	}
	return strings.Join(slices.Delete(all, at, at+1), " "), true
}

// Tokens requires only rising tokens, for a server that may lose its data.
var Tokens = Model{model: porcupine.Model{
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
		ops := operations(of, h.calm, m.triesMeet)
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
