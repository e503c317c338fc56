package bench

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// Table is a list of rows of cells. The first row is the header.
type Table [][]string

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
