package main

import (
	"cmp"
	"fmt"
	"go/token"
	"slices"
	"strings"
)

// variable is the environment variable that selects the active mutant.
const variable = "LEASEWHEEL_MUTANT"

// instrument returns the text of the file with all viable mutants. Comments mark the
// code of each mutant, so that compile errors can be assigned to mutants.
func (f *sourceFile) instrument(viable func(*mutant) bool) string {
	w := instrumenter{sourceFile: f, viable: viable, points: slices.Clone(f.points)}
	slices.SortStableFunc(w.points, func(a, b *point) int {
		return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(b.to, a.to))
	})
	var b strings.Builder
	w.write(&b, 0, len(f.text), w.points)
	return b.String()
}

type instrumenter struct {
	*sourceFile
	viable func(*mutant) bool
	points []*point
}

// write writes the bytes [from, to) of the file. The points are those inside, outer
// points first.
func (w *instrumenter) write(b *strings.Builder, from, to int, points []*point) {
	for len(points) > 0 {
		p := points[0]
		inner := 1
		for inner < len(points) && points[inner].from < p.to {
			inner++
		}
		b.WriteString(w.text[from:p.from])
		w.writePoint(b, p, points[1:inner])
		from, points = p.to, points[inner:]
	}
	b.WriteString(w.text[from:to])
}

// within returns the points inside [from, to).
func within(points []*point, from, to int) []*point {
	var some []*point
	for _, p := range points {
		if p.from >= from && p.to <= to {
			some = append(some, p)
		}
	}
	return some
}

// mutated returns the text of a point with a mutant, between marks.
func (w *instrumenter) mutated(p *point, m *mutant) string {
	return mark(m.id) + w.text[p.from:m.from] + m.text + w.text[m.to:p.to] + mark(0)
}

func mark(id int) string { return fmt.Sprintf("/*m%d*/", id) }

// writePoint writes the original code of a point and its mutants.
func (w *instrumenter) writePoint(b *strings.Builder, p *point, inner []*point) {
	var here []*mutant
	for _, m := range p.mutants {
		if w.viable(m) {
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
		// The original comes first so that the usual path evaluates one condition.
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
		w.write(b, w.offset(p.x.Pos()), w.offset(p.x.End()), within(inner, w.offset(p.x.Pos()), w.offset(p.x.End())))
		b.WriteString(", ")
		w.write(b, w.offset(p.y.Pos()), w.offset(p.y.End()), within(inner, w.offset(p.y.Pos()), w.offset(p.y.End())))
		b.WriteString(")" + mark(0))
	case constant:
		m := here[0]
		fmt.Fprintf(b, "%spick_(%d, %s, %s)%s", mark(m.id), m.id, w.text[p.from:p.to], m.text, mark(0))
	case definition:
		original()
		for _, m := range here {
			fmt.Fprintf(b, "\nif m_ == %d {\n%s\n}", m.id, strings.Replace(w.mutated(p, m), ":=", "=", 1))
		}
	}
}

// none returns the condition that no mutant of a point is active.
func none(here []*mutant) string {
	var all []string
	for _, m := range here {
		all = append(all, fmt.Sprintf("m_ != %d", m.id))
	}
	if len(all) > 3 { // ids are consecutive
		return fmt.Sprintf("(m_ < %d || m_ > %d)", here[0].id, here[len(here)-1].id)
	}
	return strings.Join(all, " && ")
}

// helpers has the names of functions that compute an operation or its mutant.
var helpers = map[token.Token]string{
	token.ADD: "add_", token.SUB: "sub_", token.MUL: "mul_", token.QUO: "quo_", token.REM: "rem_",
	token.AND: "and_", token.OR: "or_", token.XOR: "xor_", token.AND_NOT: "not_",
	token.SHL: "shl_", token.SHR: "shr_",
}

// supportFile returns a file for the package with the id of the active mutant and the
// helper functions.
func supportFile(name string) string {
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
`, helper, params, right, replacements[op][0], op)
	}
	return b.String()
}
