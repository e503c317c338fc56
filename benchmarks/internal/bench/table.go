// Tables in Markdown.

package bench

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Table is a list of rows of cells. The first row is the header.
type Table [][]string

// Goals returns the rows of a table of goals that have the mark ✗, after a sentence that says how
// many rows have none.
func (t Table) Goals() string {
	missed := Table{t[0]}
	for _, cells := range t[1:] {
		if slices.ContainsFunc(cells, func(cell string) bool { return strings.Contains(cell, "✗") }) {
			missed = append(missed, cells)
		}
	}
	goals, misses := len(t)-1, len(missed)-1
	if misses == 0 {
		return fmt.Sprintf("All %d goals are met.\n", goals)
	}
	return fmt.Sprintf("%d of %d goals are met. Missed:\n\n%s", goals-misses, goals, missed)
}

// String returns the table in Markdown. All cells of a column have the same width.
func (t Table) String() string {
	widths := make([]int, len(t[0]))
	for _, cells := range t {
		for i, cell := range cells {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	rule := make([]string, len(widths))
	for i, w := range widths {
		rule[i] = strings.Repeat("-", w)
	}
	var b strings.Builder
	for _, cells := range slices.Insert(slices.Clone(t), 1, rule) {
		for i, cell := range cells {
			b.WriteString("| " + cell + strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell)+1))
		}
		b.WriteString("|\n")
	}
	return b.String()
}
