package main

import (
	_ "embed" // of the list
	"fmt"
	"strings"
)

//go:embed equivalent.txt
var equivalentText string

// equivalents are mutants that change nothing that is promised, with the reason for
// each. A mutant is known by its package, its function, and the text before and
// after the change.
type equivalents map[string]*reason

type reason struct {
	text string
	met  bool
}

// parseEquivalents reads paragraphs of four lines:
//
//	package function
//	- the text before
//	+ the text after
//	= why that changes nothing
//
// A line that begins with # says nothing.
func parseEquivalents(text string) (equivalents, error) {
	all := make(equivalents)
	var lines []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		lines = append(lines, line)
		if len(lines) < 4 {
			continue
		}
		before, first := strings.CutPrefix(lines[1], "- ")
		after, second := strings.CutPrefix(lines[2], "+ ")
		why, third := strings.CutPrefix(lines[3], "= ")
		if !first || !second || !third {
			return nil, fmt.Errorf("no paragraph of an equivalent: %q", lines)
		}
		all[keyOf(lines[0], before, after)] = &reason{text: why}
		lines = nil
	}
	if len(lines) > 0 {
		return nil, fmt.Errorf("half a paragraph: %q", lines)
	}
	return all, nil
}

func keyOf(where, before, after string) string { return where + "\n" + before + "\n" + after }

// has tells that a mutant is in the list, and notes that it was met.
func (e equivalents) has(pkg string, m *mutant) bool {
	found, ok := e[keyOf(pkg+" "+m.function, m.before, m.after)]
	if ok {
		found.met = true
	}
	return ok
}

// unmet are those of a package that no mutant is any more.
func (e equivalents) unmet(pkg string) []string {
	var all []string
	for key, r := range e {
		if strings.HasPrefix(key, pkg+" ") && !r.met {
			all = append(all, strings.ReplaceAll(key, "\n", "  ->  "))
		}
	}
	return all
}
