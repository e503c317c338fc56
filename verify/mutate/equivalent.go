package main

import (
	_ "embed" // equivalent.txt
	"fmt"
	"go/scanner"
	"go/token"
	"go/types"
	"strings"
)

//go:embed equivalent.txt
var equivalentText string

// entry is one mutant of equivalent.txt.
type entry struct {
	pkg, function string
	before, after string
	reason        string
}

func (e *entry) String() string {
	return fmt.Sprintf("%s %s: %s  ->  %s", e.pkg, e.function, e.before, e.after)
}

// parseEquivalents reads paragraphs of four lines:
//
//	package function
//	- the text before the change
//	+ the text after the change
//	= the reason why the change makes no difference
//
// It ignores empty lines and lines that begin with #.
func parseEquivalents(text string) ([]*entry, error) {
	var entries []*entry
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
		e := new(entry)
		var ok [4]bool
		e.pkg, e.function, ok[0] = strings.Cut(lines[0], " ")
		e.before, ok[1] = strings.CutPrefix(lines[1], "- ")
		e.after, ok[2] = strings.CutPrefix(lines[2], "+ ")
		e.reason, ok[3] = strings.CutPrefix(lines[3], "= ")
		if ok != [4]bool{true, true, true, true} {
			return nil, fmt.Errorf("equivalent.txt: malformed paragraph: %q", lines)
		}
		entries = append(entries, e)
		lines = nil
	}
	if len(lines) > 0 {
		return nil, fmt.Errorf("equivalent.txt: incomplete paragraph: %q", lines)
	}
	return entries, nil
}

// minIdentifiers is how many identifiers the text of an entry must have to be found in
// another function.
const minIdentifiers = 3

// matchEquivalents finds the mutants of a package that the list describes. Stale are
// the entries of the package that describe no mutant.
//
// An entry describes the mutants with its function and text. If there are none, an
// identifier may have been renamed. The entry then describes the only mutant in the
// function that has the same text up to a consistent renaming of identifiers. If the
// package no longer has the function, the entry describes the only such mutant in a
// function that differs in its name or in its receiver, but not in both. In that case
// the text must have three identifiers, because shorter text looks alike in many
// functions. Mutants that another entry describes exactly do not count.
func matchEquivalents(entries []*entry, pkg string, mutants []*mutant) (found map[*mutant]*entry, stale []*entry) {
	found = make(map[*mutant]*entry)
	functions := make(map[string]bool)
	byKey := make(map[key][]*mutant)
	for _, m := range mutants {
		functions[m.function] = true
		byKey[m.key()] = append(byKey[m.key()], m)
	}
	var renamed []*entry
	for _, e := range entries {
		if e.pkg != pkg {
			continue
		}
		exact := byKey[key{e.function, e.before, e.after}]
		for _, m := range exact {
			found[m] = e
		}
		if len(exact) == 0 {
			renamed = append(renamed, e)
		}
	}
	byShape := make(map[string][]key)
	for k, all := range byKey {
		if len(renamed) > 0 && found[all[0]] == nil {
			shape, _ := shapeOf(k.before, k.after)
			byShape[shape] = append(byShape[shape], k)
		}
	}
	for _, e := range renamed {
		var candidates []key
		shape, identifiers := shapeOf(e.before, e.after)
		follow := !functions[e.function] && identifiers >= minIdentifiers
		for _, k := range byShape[shape] {
			if k.function == e.function || follow && isRenamed(e.function, k.function) {
				candidates = append(candidates, k)
			}
		}
		if len(candidates) != 1 {
			stale = append(stale, e)
			continue
		}
		for _, m := range byKey[candidates[0]] {
			found[m] = e
		}
	}
	return found, stale
}

// key identifies a mutant in its package. Mutants of repeated code share a key.
type key struct{ function, before, after string }

func (m *mutant) key() key { return key{m.function, m.before, m.after} }

// isRenamed reports whether two functions have the same receiver or the same name.
func isRenamed(before, after string) bool {
	receiver, name := splitFunction(before)
	otherReceiver, otherName := splitFunction(after)
	return receiver == otherReceiver || name == otherName
}

func splitFunction(function string) (receiver, name string) {
	dot := strings.LastIndexByte(function, '.')
	return function[:max(dot, 0)], function[dot+1:]
}

// shapeOf returns both texts with each identifier replaced by a number that counts
// first occurrences, and the number of different identifiers. Two changes have the same
// shape if and only if a consistent renaming of identifiers turns one into the other.
// The texts are Go or Lua.
func shapeOf(before, after string) (shape string, identifiers int) {
	numbers := make(map[string]int)
	var b strings.Builder
	for _, text := range []string{before, after} {
		var s scanner.Scanner
		files := token.NewFileSet()
		s.Init(files.AddFile("", -1, len(text)), []byte(text), nil, scanner.ScanComments)
		for {
			_, tok, literal := s.Scan()
			if tok == token.EOF {
				break
			}
			if tok != token.IDENT || isReserved(literal) {
				fmt.Fprint(&b, tok, literal, " ")
				continue
			}
			if numbers[literal] == 0 {
				numbers[literal] = len(numbers) + 1
			}
			fmt.Fprintf(&b, "$%d ", numbers[literal])
		}
		b.WriteString("\n")
	}
	return b.String(), len(numbers)
}

// isReserved reports whether a name is predeclared in Go, a keyword of Lua, or the word
// for a statement that a mutant leaves out.
func isReserved(name string) bool {
	switch name {
	case "and", "or", "not", "then", "elseif", "end", "while", "do", "local", "function", "nothing":
		return true
	}
	return types.Universe.Lookup(name) != nil
}

// listHeader is the beginning of equivalent.txt.
const listHeader = `# Equivalent mutants: they change nothing that the library promises, or nothing that a
# test can observe. Each entry has four lines:
#
#	package function
#	- the statement or condition
#	+ the mutant
#	= the reason
`

// formatEquivalents returns the text of a list. Entries that describe a mutant under
// other names get the names of today.
func formatEquivalents(entries []*entry, found map[*mutant]*entry) string {
	today := make(map[*entry]key)
	for m, e := range found {
		today[e] = m.key()
	}
	var b strings.Builder
	b.WriteString(listHeader)
	for _, e := range entries {
		k, ok := today[e]
		if !ok {
			k = key{e.function, e.before, e.after}
		}
		fmt.Fprintf(&b, "\n%s %s\n- %s\n+ %s\n= %s\n", e.pkg, k.function, k.before, k.after, e.reason)
	}
	return b.String()
}
