// Package report has what the reports of benchmarks and of verification share: tables, sections of
// documents, and lines after tests.
package report

import (
	"encoding/xml"
	"fmt"
	"os"
	"runtime"
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

// Add adds a row, unless all cells but the first ones are empty.
func (t *Table) Add(first []string, cells ...string) {
	if strings.Join(cells, "") != "" {
		*t = append(*t, append(first, cells...))
	}
}

// Escape returns text for use in XML.
func Escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a strings.Builder never fails
	return b.String()
}

// Replace replaces a section of a document: what is between the lines "<!-- section -->" and
// "<!-- end of section -->".
func Replace(path, section, text string) error {
	page, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	begin, end := "<!-- "+section+" -->\n", "<!-- end of "+section+" -->"
	before, rest, hasBegin := strings.Cut(string(page), begin)
	_, after, hasEnd := strings.Cut(rest, end)
	if !hasBegin || !hasEnd {
		return fmt.Errorf("%s has no lines %q and %q", path, strings.TrimSpace(begin), end)
	}
	return os.WriteFile(path, []byte(before+begin+"\n"+text+end+after), 0o644)
}

// Machine returns the number of cores and, where the system reports it, the name of the processor.
func Machine() string {
	info, _ := os.ReadFile("/proc/cpuinfo") // only Linux has it
	for line := range strings.Lines(string(info)) {
		if name, ok := strings.CutPrefix(line, "model name"); ok {
			return fmt.Sprintf("%d × %s", runtime.NumCPU(), strings.Trim(name, "\t :\n"))
		}
	}
	return fmt.Sprintf("%d × %s", runtime.NumCPU(), runtime.GOARCH)
}

// Load returns the load averages of the last 1, 5 and 15 minutes, or "" where the system does not report it.
func Load() string {
	text, _ := os.ReadFile("/proc/loadavg") // only Linux has it
	fields := strings.Fields(string(text))
	return strings.Join(fields[:min(3, len(fields))], " ")
}
