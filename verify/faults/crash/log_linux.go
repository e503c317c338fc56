// The log of the steppers, and the check that their turns do not overlap.

package crash

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// step is a line of the log that the processes write: at an instant in ns a process worked on a key, with a fencing token.
type step struct {
	key     string
	token   uint64
	process int
	at      int64
}

// turn is the steps with one token.
type turn struct {
	token       uint64
	process     int
	first, last int64
}

// checkLog reads a log, and returns the number of steps, the turns of each key in the order of their tokens, and what is wrong
// in it: a token of two processes, or a turn that begins before another one has ended that has a lower token. It knows nothing
// of the library: it sees what the protected resource sees.
func checkLog(text string) (steps int, turns map[string][]turn, wrong []string) {
	turns = map[string][]turn{}
	for line := range strings.Lines(text) {
		var s step
		if n, err := fmt.Sscanf(line, "%s %d %d %d\n", &s.key, &s.token, &s.process, &s.at); n < 4 || err != nil {
			wrong = append(wrong, fmt.Sprintf("a line that no step writes: %q", line))
			continue
		}
		steps++
		all := turns[s.key]
		i, known := slices.BinarySearchFunc(all, s.token, func(t turn, token uint64) int { return cmp.Compare(t.token, token) })
		switch {
		case !known:
			turns[s.key] = slices.Insert(all, i, turn{s.token, s.process, s.at, s.at})
		case all[i].process != s.process:
			wrong = append(wrong, fmt.Sprintf("%s: processes %d and %d have the token %d", s.key, all[i].process, s.process, s.token))
		default:
			all[i].first, all[i].last = min(all[i].first, s.at), max(all[i].last, s.at)
		}
	}
	for key, all := range turns {
		for i := 1; i < len(all); i++ {
			if before, next := all[i-1], all[i]; next.first <= before.last {
				wrong = append(wrong, fmt.Sprintf("%s: process %d with token %d begins %d ns before process %d with token %d ends",
					key, next.process, next.token, before.last-next.first, before.process, before.token))
			}
		}
	}
	return steps, turns, wrong
}
