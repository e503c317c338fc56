package main

import (
	"fmt"
	"regexp"
	"strings"

	"github.com/yuin/gopher-lua/parse"
)

// script is a Lua file with its mutants.
type script struct {
	name, text string
	code       string // the text with comments and strings blanked out
	mutants    []*mutant
}

// luaOperators has the operators of Lua and the replacement of each.
var luaOperators = map[string]string{
	"==": "~=", "~=": "==", "<": "<=", "<=": "<", ">": ">=", ">=": ">",
	"and": "or", "or": "and", "+": "-", "-": "+", "*": "/", "/": "*",
	"true": "false", "false": "true", "not": "",
}

var (
	luaOperator  = regexp.MustCompile(`==|~=|<=|>=|<|>|\band\b|\bor\b|\bnot\b|\btrue\b|\bfalse\b| [-+*/] `)
	luaNumber    = regexp.MustCompile(`\b\d+\b`)
	luaBranch    = regexp.MustCompile(`\b(?:if|elseif|while) (.+?) (?:then|do)\b`)
	luaCall      = regexp.MustCompile(`\b\w+(?:\.\w+)?\(`)
	luaFunction  = regexp.MustCompile(`^(?:local )?function (\w+)`)
	luaStatement = regexp.MustCompile(`^\s*(?:[\w.\[\]#+ ]+(?:, \w+)* = |[\w.]+\(|return\b)`)
	luaBlank     = regexp.MustCompile(`--.*|'[^'\n]*'`) // comments and strings; a comment may have an apostrophe
)

// findLua finds the mutants of a script.
func findLua(name, text string) *script {
	s := &script{name: name, text: text}
	s.code = luaBlank.ReplaceAllStringFunc(text, func(part string) string {
		if strings.HasPrefix(part, "--") {
			return strings.Repeat(" ", len(part))
		}
		return strings.Repeat("_", len(part))
	})
	offset, function := 0, "(body)"
	for line := range strings.Lines(s.code) {
		if found := luaFunction.FindStringSubmatch(line); found != nil {
			function = found[1]
		}
		s.line(function, offset, line)
		if strings.HasPrefix(line, "end") {
			function = "(body)"
		}
		offset += len(line)
	}
	return s
}

// line finds the mutants of the line at an offset. It takes each line for one
// statement.
func (s *script) line(function string, offset int, line string) {
	add := func(from, to int, text string) { s.add(function, offset, line, edit{offset + from, offset + to, text}) }
	for _, found := range luaOperator.FindAllStringIndex(line, -1) {
		operator := line[found[0]:found[1]]
		trimmed := strings.TrimSpace(operator)
		add(found[0], found[1], strings.Replace(operator, trimmed, luaOperators[trimmed], 1))
	}
	for _, found := range luaNumber.FindAllStringIndex(line, -1) {
		number := line[found[0]:found[1]]
		add(found[0], found[1], "("+number+" + 1)")
		if number != "0" {
			add(found[0], found[1], "("+number+" - 1)")
		}
	}
	for _, found := range luaBranch.FindAllStringSubmatchIndex(line, -1) {
		add(found[2], found[3], "not ("+s.text[offset+found[2]:offset+found[3]]+")")
	}
	for _, found := range luaCall.FindAllStringIndex(line, -1) {
		s.arguments(add, line, found[1])
	}
	if luaStatement.MatchString(line) && !strings.HasPrefix(strings.TrimSpace(line), "local ") {
		add(len(line)-len(strings.TrimLeft(line, " ")), len(strings.TrimRight(line, "\n")), "")
	}
}

// arguments leaves out one argument of a call at a time, except the first.
func (s *script) arguments(add func(from, to int, text string), line string, from int) {
	depth, comma := 0, -1
	for i := from; i < len(line); i++ {
		switch c := line[i]; {
		case c == '(' || c == '{' || c == '[':
			depth++
		case depth > 0 && (c == ')' || c == '}' || c == ']'):
			depth--
		case depth == 0 && (c == ',' || c == ')'):
			if comma >= 0 {
				add(comma, i, "")
			}
			comma = i
			if c == ')' {
				return
			}
		}
	}
}

// add adds a mutant, unless the changed script is not valid Lua.
func (s *script) add(function string, offset int, line string, c edit) {
	mutated := s.text[:c.from] + c.text + s.text[c.to:]
	if _, err := parse.Parse(strings.NewReader(mutated), s.name); err != nil {
		return
	}
	end := offset + len(strings.TrimRight(line, "\n"))
	m := &mutant{
		file: s.name, line: 1 + strings.Count(s.text[:c.from], "\n"), function: s.name + "." + function, edit: c,
		before: oneLine(s.text[offset:end]), after: oneLine(s.text[offset:c.from] + c.text + s.text[c.to:end]),
	}
	if m.after == "" {
		m.after = "(nothing)"
	}
	s.mutants = append(s.mutants, m)
}

// mutated returns the text of the script with a mutant.
func (s *script) mutated(m *mutant) string {
	return fmt.Sprint(s.text[:m.from], m.text, s.text[m.to:])
}
