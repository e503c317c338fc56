package main

import (
	"cmp"
	"fmt"
	"go/token"
	"slices"
	"strings"
)

// variable is the environment variable that switches a mutant on.
const variable = "LEASEWHEEL_MUTANT"

// weave returns the file with those mutants in it that are alive. Around what is of
// a mutant it leaves marks, to which the errors of the compiler are held.
func (f *finder) weave(alive func(*mutant) bool) string {
	w := weaver{finder: f, alive: alive, points: slices.Clone(f.points)}
	slices.SortStableFunc(w.points, func(a, b *point) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to))
	})
	var b strings.Builder
	w.write(&b, 0, len(f.text), w.points)
	return b.String()
}

type weaver struct {
	*finder
	alive  func(*mutant) bool
	points []*point
}

// write writes a part of the file. The points are those in it, the outer ones first.
func (w *weaver) write(b *strings.Builder, from, to int, points []*point) {
	for len(points) > 0 {
		p := points[0]
		inner := 1
		for inner < len(points) && points[inner].from < p.to {
			inner++
		}
		b.WriteString(w.text[from:p.from])
		w.choose(b, p, points[1:inner])
		from, points = p.to, points[inner:]
	}
	b.WriteString(w.text[from:to])
}

// within are those of the points that lie between two places.
func within(points []*point, from, to int) []*point {
	var some []*point
	for _, p := range points {
		if p.from >= from && p.to <= to {
			some = append(some, p)
		}
	}
	return some
}

// mutated is the text of a point with the change of a mutant, between marks.
func (w *weaver) mutated(p *point, m *mutant) string {
	return mark(m.id) + w.text[p.from:m.from] + m.text + w.text[m.to:p.to] + mark(0)
}

func mark(id int) string { return fmt.Sprintf("/*m%d*/", id) }

// choose writes a point: what stands there, and its mutants.
func (w *weaver) choose(b *strings.Builder, p *point, inner []*point) {
	var here []*mutant
	for _, m := range p.mutants {
		if w.alive(m) {
			here = append(here, m)
		}
	}
	original := func() { w.write(b, p.from, p.to, inner) }
	if len(here) == 0 {
		original()
		return
	}
	switch p.kind {
	case statement:
		// What stands there is not the last branch, so that the usual way is short.
		fmt.Fprintf(b, "if %s {\n", none(here))
		original()
		for i, m := range here {
			if i < len(here)-1 {
				fmt.Fprintf(b, "\n} else if m_ == %d {\n%s", m.id, w.mutated(p, m))
			} else {
				fmt.Fprintf(b, "\n} else {\n%s", w.mutated(p, m))
			}
		}
		b.WriteString("\n}")
	case condition:
		fmt.Fprintf(b, "(%s && (", none(here))
		original()
		b.WriteString(")")
		for _, m := range here {
			fmt.Fprintf(b, " ||\nm_ == %d && (%s)", m.id, w.mutated(p, m))
		}
		b.WriteString(")")
	case operation:
		m := here[0]
		fmt.Fprintf(b, "%s%s(%d, ", mark(m.id), helpers[p.op], m.id)
		w.write(b, w.at(p.x.Pos()), w.at(p.x.End()), within(inner, w.at(p.x.Pos()), w.at(p.x.End())))
		b.WriteString(", ")
		w.write(b, w.at(p.y.Pos()), w.at(p.y.End()), within(inner, w.at(p.y.Pos()), w.at(p.y.End())))
		b.WriteString(")" + mark(0))
	case constant:
		m := here[0]
		fmt.Fprintf(b, "%spick_(%d, %s, %s)%s", mark(m.id), m.id, w.text[p.from:p.to], m.text, mark(0))
	case afterward:
		original()
		for _, m := range here {
			fmt.Fprintf(b, "\nif m_ == %d {\n%s\n}", m.id, strings.Replace(w.mutated(p, m), ":=", "=", 1))
		}
	}
}

// none is the condition that no mutant of a point is on.
func none(here []*mutant) string {
	var all []string
	for _, m := range here {
		all = append(all, fmt.Sprintf("m_ != %d", m.id))
	}
	if len(all) > 3 { // their numbers rise
		return fmt.Sprintf("(m_ < %d || m_ > %d)", here[0].id, here[len(here)-1].id)
	}
	return strings.Join(all, " && ")
}

// helpers are the functions that do an operation, or its mutant.
var helpers = map[token.Token]string{
	token.ADD: "add_", token.SUB: "sub_", token.MUL: "mul_", token.QUO: "quo_", token.REM: "rem_",
	token.AND: "and_", token.OR: "or_", token.XOR: "xor_", token.AND_NOT: "not_",
	token.SHL: "shl_", token.SHR: "shr_",
}

// switchboard is a file for the package, with the switch and those functions.
func switchboard(name string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `package %s

import (
	"os"
	"strconv"
)

var m_, _ = strconv.Atoi(os.Getenv(%q))

func pick_[T any](m int, a, b T) T {
	if m_ == m {
		return b
	}
	return a
}

type int_ interface {
	~int | ~int8 | ~int16 | ~int32 | ~int64 | ~uint | ~uint8 | ~uint16 | ~uint32 | ~uint64 | ~uintptr
}

type number_ interface{ int_ | ~float32 | ~float64 }
`, name, variable)
	for op, helper := range helpers {
		params, right := "T number_", "T"
		switch op {
		case token.REM, token.AND, token.OR, token.XOR, token.AND_NOT:
			params = "T int_"
		case token.SHL, token.SHR:
			params, right = "T, U int_", "U"
		case token.ADD, token.SUB, token.MUL, token.QUO:
		}
		fmt.Fprintf(&b, `
func %s[%s](m int, a T, b %s) T {
	if m_ == m {
		return a %s b
	}
	return a %s b
}
`, helper, params, right, others[op][0], op)
	}
	return b.String()
}
