package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
)

// mutant is one change of a file.
type mutant struct {
	id         int
	file       string // its name, without a folder
	line       int
	function   string // of which it changes the body
	begin, end int    // the lines of that
	inCase     bool   // it stands in a case of a switch
	before     string // the statement or expression around the change, on one line
	after      string // and what becomes of it; empty: nothing
	change

	outcome outcome
	detail  string // what the tests said
}

func (m *mutant) String() string {
	return fmt.Sprintf("%s:%d %s: %s  ->  %s", m.file, m.line, m.function, m.before, m.after)
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// A point is a place of a file where the program chooses between what stands there
// and its mutants.
type point struct {
	kind     kind
	from, to int
	mutants  []*mutant
	x, y     ast.Expr // the operands, of an operation
	op       token.Token
}

type kind int

const (
	statement kind = iota // one that declares nothing
	condition             // an expression of truth
	operation             // an arithmetic one that is no part of a point of the kinds above
	constant              // a number that is none either
	afterward             // a declaration, after which its variables are set anew
)

// finder collects the points of a file.
type finder struct {
	fset       *token.FileSet
	name       string
	text       string
	function   string
	begin, end int // its lines
	inCase     bool
	results    []ast.Expr // types of the results of the function around
	points     []*point
	all        []*mutant
}

// find returns the file with the points of all its functions.
func find(name, text string) (*finder, error) {
	f := &finder{fset: token.NewFileSet(), name: name, text: text}
	file, err := parser.ParseFile(f.fset, name, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	for _, d := range file.Decls {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Body == nil {
			continue
		}
		f.function = nameOf(fn)
		f.begin, f.end = f.fset.Position(fn.Pos()).Line, f.fset.Position(fn.End()).Line
		f.body(fn.Type, fn.Body)
	}
	return f, nil
}

// nameOf is the name of a function with that of its receiver, without pointers and
// type parameters.
func nameOf(fn *ast.FuncDecl) string {
	if fn.Recv == nil {
		return fn.Name.Name
	}
	t := fn.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		default:
			return fmt.Sprintf("%v.%s", t, fn.Name.Name)
		}
	}
}

func (f *finder) at(p token.Pos) int       { return f.fset.Position(p).Offset }
func (f *finder) source(n ast.Node) string { return f.text[f.at(n.Pos()):f.at(n.End())] }

// body finds what is in a function.
func (f *finder) body(t *ast.FuncType, b *ast.BlockStmt) {
	outer := f.results
	f.results = nil
	if t.Results != nil {
		for _, field := range t.Results.List {
			for range max(1, len(field.Names)) {
				f.results = append(f.results, field.Type)
			}
		}
	}
	f.list(b.List)
	f.results = outer
}

func (f *finder) list(stmts []ast.Stmt) {
	for _, s := range stmts {
		f.statement(s)
	}
}

func (f *finder) statement(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.BlockStmt:
		f.list(s.List)
	case *ast.LabeledStmt:
		if _, loop := s.Stmt.(*ast.ForStmt); loop {
			f.statement(s.Stmt)
		}
		if _, loop := s.Stmt.(*ast.RangeStmt); loop {
			f.statement(s.Stmt)
		}
	case *ast.IfStmt:
		f.header(s.Init)
		f.condition(s.Cond)
		f.list(s.Body.List)
		if s.Else != nil {
			f.statement(s.Else)
		}
	case *ast.ForStmt:
		f.header(s.Init)
		if s.Cond != nil {
			f.condition(s.Cond)
		}
		f.header(s.Post)
		f.list(s.Body.List)
	case *ast.RangeStmt:
		f.expressions(s.X)
		f.list(s.Body.List)
	case *ast.SwitchStmt:
		f.header(s.Init)
		if s.Tag != nil {
			f.expressions(s.Tag)
		}
		f.cases(s)
	case *ast.TypeSwitchStmt:
		for _, c := range s.Body.List {
			f.list(c.(*ast.CaseClause).Body)
		}
	case *ast.SelectStmt:
		for _, c := range s.Body.List {
			f.list(c.(*ast.CommClause).Body)
		}
	case *ast.DeferStmt:
		f.functionsIn(s)
	case *ast.DeclStmt:
		f.expressions(s)
	case *ast.AssignStmt:
		if s.Tok == token.DEFINE {
			f.definition(s)
			return
		}
		f.simple(s)
	case *ast.ExprStmt, *ast.IncDecStmt, *ast.SendStmt, *ast.ReturnStmt, *ast.BranchStmt, *ast.GoStmt:
		f.simple(s)
	}
}

func (f *finder) cases(s *ast.SwitchStmt) {
	for _, c := range s.Body.List {
		clause := c.(*ast.CaseClause)
		for _, e := range clause.List {
			if s.Tag == nil {
				f.inCase = true
				f.condition(e)
				f.inCase = false
			}
		}
		f.list(clause.Body)
	}
}

// header is for a statement that stands in front of a block.
func (f *finder) header(s ast.Stmt) {
	if s != nil {
		f.expressions(s)
	}
}

// point adds a place, unless nothing can be changed there.
func (f *finder) point(k kind, n ast.Node, changes []change) *point {
	if len(changes) == 0 {
		return nil
	}
	p := &point{kind: k, from: f.at(n.Pos()), to: f.at(n.End())}
	for _, c := range changes {
		from, to := f.shown(p, c)
		m := &mutant{
			id: len(f.all) + 1, file: f.name, line: 1 + strings.Count(f.text[:c.from], "\n"),
			function: f.function, begin: f.begin, end: f.end, inCase: f.inCase, change: c,
			before: oneLine(f.text[from:to]), after: oneLine(f.text[from:c.from] + c.text + f.text[c.to:to]),
		}
		if m.after == "" {
			m.after = "(nothing)"
		}
		p.mutants = append(p.mutants, m)
		f.all = append(f.all, m)
	}
	f.points = append(f.points, p)
	return p
}

// shown are the bounds of what is shown of a point: all of it, or of a long one the
// lines of the change.
func (f *finder) shown(p *point, c change) (from, to int) {
	const most = 200
	if p.to-p.from <= most {
		return p.from, p.to
	}
	from = max(p.from, 1+strings.LastIndex(f.text[:c.from], "\n"))
	to = min(p.to, c.to+strings.IndexAny(f.text[c.to:], "\n"))
	return from, to
}

// condition is for an expression of truth that decides where the program goes on.
func (f *finder) condition(e ast.Expr) {
	changes := f.changesIn(e)
	switch ast.Unparen(e).(type) {
	case *ast.BinaryExpr, *ast.UnaryExpr: // negated by their operator
	default:
		changes = append(changes, change{f.at(e.Pos()), f.at(e.End()), "!(" + f.source(e) + ")"})
	}
	f.point(condition, e, changes)
	f.functionsIn(e)
}

// simple is for a statement that can be one of several.
func (f *finder) simple(s ast.Stmt) {
	var changes []change
	if r, ok := s.(*ast.ReturnStmt); ok && f.failing(r) {
		changes = f.changesIn(r.Results[len(r.Results)-1]) // what is returned beside an error means nothing
	} else {
		changes = f.changesIn(s)
	}
	whole := change{f.at(s.Pos()), f.at(s.End()), ""}
	switch s := s.(type) {
	case *ast.ExprStmt:
		if !isLocking(s.X) {
			changes = append(changes, whole)
		}
	case *ast.AssignStmt, *ast.IncDecStmt, *ast.SendStmt, *ast.GoStmt:
		changes = append(changes, whole)
	case *ast.ReturnStmt:
		changes = append(changes, f.zeros(s)...)
	case *ast.BranchStmt:
		if s.Tok == token.BREAK {
			changes = append(changes, change{whole.from, whole.from + len("break"), "continue"})
		}
		if s.Tok == token.CONTINUE {
			changes = append(changes, change{whole.from, whole.from + len("continue"), "break"})
		}
	}
	f.point(statement, s, changes)
	f.functionsIn(s)
}

// isLocking tells calls without which a mutex is not locked or unlocked: to leave
// out one of these hangs everything, or is for the race detector.
func isLocking(e ast.Expr) bool {
	call, ok := e.(*ast.CallExpr)
	if !ok {
		return false
	}
	sel, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	switch sel.Sel.Name {
	case "Lock", "Unlock", "RLock", "RUnlock":
		return true
	}
	return false
}

// failing tells a return of several results of which the last is an error or false.
func (f *finder) failing(s *ast.ReturnStmt) bool {
	n := len(s.Results)
	if n < 2 || n != len(f.results) {
		return false
	}
	last := f.source(s.Results[n-1])
	switch f.source(f.results[n-1]) {
	case "error":
		return last != "nil"
	case "bool":
		return last == "false"
	}
	return false
}

// zeros returns, for each result of a return, that with the zero value in its place.
func (f *finder) zeros(s *ast.ReturnStmt) []change {
	var changes []change
	if len(s.Results) != len(f.results) {
		return nil
	}
	for i, e := range s.Results {
		if f.failing(s) && i < len(s.Results)-1 {
			continue
		}
		switch f.source(e) {
		case "nil", "0", "false", `""`, "true": // true is changed elsewhere
			continue
		}
		if lit, ok := e.(*ast.CompositeLit); ok && len(lit.Elts) == 0 {
			continue
		}
		changes = append(changes, change{f.at(e.Pos()), f.at(e.End()), "*new(" + f.source(f.results[i]) + ")"})
	}
	return changes
}

// functionsIn finds what is in the functions that stand in an expression.
func (f *finder) functionsIn(n ast.Node) {
	ast.Inspect(n, func(n ast.Node) bool {
		if fn, ok := n.(*ast.FuncLit); ok {
			f.body(fn.Type, fn.Body)
			return false
		}
		return true
	})
}
