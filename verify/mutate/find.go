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
	id                  int
	file                string // base name
	line                int
	function            string // the function around it, with the type of the receiver
	firstLine, lastLine int    // of the function
	inCase              bool   // the change is in the condition of a case
	before              string // the statement or expression around the change, on one line
	after               string // its text with the change
	edit

	status status
}

func (m *mutant) String() string {
	return fmt.Sprintf("%s:%d %s: %s  ->  %s", m.file, m.line, m.function, m.before, m.after)
}

func oneLine(text string) string { return strings.Join(strings.Fields(text), " ") }

// point is a place in a file where the instrumented program chooses between the
// original code and mutants of it.
type point struct {
	kind     kind
	from, to int
	mutants  []*mutant
	x, y     ast.Expr // the operands of an operation
	op       token.Token
}

type kind int

const (
	statement  kind = iota // a statement that declares nothing
	condition              // a boolean expression
	operation              // an arithmetic expression outside statements and conditions
	constant               // a number outside of these
	definition             // a short variable declaration; mutants assign after it
)

// sourceFile is a file with its points and mutants. The other fields are the state of
// the search.
type sourceFile struct {
	fset                *token.FileSet
	name                string
	text                string
	function            string // the current function
	firstLine, lastLine int    // of the current function
	inCase              bool
	results             []ast.Expr // the result types of the current function
	points              []*point
	mutants             []*mutant
}

// parseFile finds the points in all functions of a file.
func parseFile(name, text string) (*sourceFile, error) {
	f := &sourceFile{fset: token.NewFileSet(), name: name, text: text}
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
		f.firstLine, f.lastLine = f.fset.Position(fn.Pos()).Line, f.fset.Position(fn.End()).Line
		f.body(fn.Type, fn.Body)
	}
	return f, nil
}

// nameOf returns the name of a function, for a method after the name of its type.
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

func (f *sourceFile) offset(p token.Pos) int   { return f.fset.Position(p).Offset }
func (f *sourceFile) source(n ast.Node) string { return f.text[f.offset(n.Pos()):f.offset(n.End())] }

// body finds the points in a function.
func (f *sourceFile) body(t *ast.FuncType, b *ast.BlockStmt) {
	outer := f.results
	f.results = nil
	if t.Results != nil {
		for _, field := range t.Results.List {
			for range max(1, len(field.Names)) {
				f.results = append(f.results, field.Type)
			}
		}
	}
	f.stmts(b.List)
	f.results = outer
}

func (f *sourceFile) stmts(stmts []ast.Stmt) {
	for _, s := range stmts {
		f.statement(s)
	}
}

func (f *sourceFile) statement(s ast.Stmt) {
	switch s := s.(type) {
	case *ast.BlockStmt:
		f.stmts(s.List)
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
		f.stmts(s.Body.List)
		if s.Else != nil {
			f.statement(s.Else)
		}
	case *ast.ForStmt:
		f.header(s.Init)
		if s.Cond != nil {
			f.condition(s.Cond)
		}
		f.header(s.Post)
		f.stmts(s.Body.List)
	case *ast.RangeStmt:
		f.expressions(s.X)
		f.stmts(s.Body.List)
	case *ast.SwitchStmt:
		f.header(s.Init)
		if s.Tag != nil {
			f.expressions(s.Tag)
		}
		f.cases(s)
	case *ast.TypeSwitchStmt:
		for _, c := range s.Body.List {
			f.stmts(c.(*ast.CaseClause).Body)
		}
	case *ast.SelectStmt:
		for _, c := range s.Body.List {
			f.stmts(c.(*ast.CommClause).Body)
		}
	case *ast.DeferStmt:
		f.functionLiterals(s)
	case *ast.DeclStmt:
		f.expressions(s)
	case *ast.AssignStmt:
		if s.Tok == token.DEFINE {
			f.definition(s)
			return
		}
		f.simpleStmt(s)
	case *ast.ExprStmt, *ast.IncDecStmt, *ast.SendStmt, *ast.ReturnStmt, *ast.BranchStmt, *ast.GoStmt:
		f.simpleStmt(s)
	}
}

func (f *sourceFile) cases(s *ast.SwitchStmt) {
	for _, c := range s.Body.List {
		clause := c.(*ast.CaseClause)
		for _, e := range clause.List {
			if s.Tag == nil {
				f.inCase = true
				f.condition(e)
				f.inCase = false
			}
		}
		f.stmts(clause.Body)
	}
}

// header finds the points in the initialization or post statement of a block.
func (f *sourceFile) header(s ast.Stmt) {
	if s != nil {
		f.expressions(s)
	}
}

// point adds a point, unless there are no edits.
func (f *sourceFile) point(k kind, n ast.Node, edits []edit) *point {
	if len(edits) == 0 {
		return nil
	}
	p := &point{kind: k, from: f.offset(n.Pos()), to: f.offset(n.End())}
	for _, c := range edits {
		from, to := f.excerpt(p, c)
		m := &mutant{
			id: len(f.mutants) + 1, file: f.name, line: 1 + strings.Count(f.text[:c.from], "\n"),
			function: f.function, firstLine: f.firstLine, lastLine: f.lastLine, inCase: f.inCase, edit: c,
			before: oneLine(f.text[from:to]), after: oneLine(f.text[from:c.from] + c.text + f.text[c.to:to]),
		}
		if m.after == "" {
			m.after = "(nothing)"
		}
		p.mutants = append(p.mutants, m)
		f.mutants = append(f.mutants, m)
	}
	f.points = append(f.points, p)
	return p
}

// excerpt returns the bounds of the text that describes an edit: the whole point, or
// the lines of the edit if the point is long.
func (f *sourceFile) excerpt(p *point, c edit) (from, to int) {
	const most = 200
	if p.to-p.from <= most {
		return p.from, p.to
	}
	from = max(p.from, 1+strings.LastIndex(f.text[:c.from], "\n"))
	to = min(p.to, c.to+strings.IndexAny(f.text[c.to:], "\n"))
	return from, to
}

// condition adds a boolean expression that controls a branch or loop.
func (f *sourceFile) condition(e ast.Expr) {
	edits := f.editsOf(e)
	switch ast.Unparen(e).(type) {
	case *ast.BinaryExpr, *ast.UnaryExpr: // editsOf negates them
	default:
		edits = append(edits, edit{f.offset(e.Pos()), f.offset(e.End()), "!(" + f.source(e) + ")"})
	}
	f.point(condition, e, edits)
	f.functionLiterals(e)
}

// simpleStmt adds a statement that contains no other statements.
func (f *sourceFile) simpleStmt(s ast.Stmt) {
	var edits []edit
	if r, ok := s.(*ast.ReturnStmt); ok && f.returnsFailure(r) {
		edits = f.editsOf(r.Results[len(r.Results)-1]) // callers ignore the other results
	} else {
		edits = f.editsOf(s)
	}
	whole := edit{f.offset(s.Pos()), f.offset(s.End()), ""}
	switch s := s.(type) {
	case *ast.ExprStmt:
		if !isMutexCall(s.X) {
			edits = append(edits, whole)
		}
	case *ast.AssignStmt, *ast.IncDecStmt, *ast.SendStmt, *ast.GoStmt:
		edits = append(edits, whole)
	case *ast.ReturnStmt:
		edits = append(edits, f.zeroResults(s)...)
	case *ast.BranchStmt:
		if s.Tok == token.BREAK {
			edits = append(edits, edit{whole.from, whole.from + len("break"), "continue"})
		}
		if s.Tok == token.CONTINUE {
			edits = append(edits, edit{whole.from, whole.from + len("continue"), "break"})
		}
	}
	f.point(statement, s, edits)
	f.functionLiterals(s)
}

// isMutexCall reports whether an expression locks or unlocks a mutex. Without an unlock
// every test hangs, and only the race detector sees a missing lock.
func isMutexCall(e ast.Expr) bool {
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

// returnsFailure reports whether the last of several results is an error or false.
func (f *sourceFile) returnsFailure(s *ast.ReturnStmt) bool {
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

// zeroResults returns the edits that replace one result by its zero value.
func (f *sourceFile) zeroResults(s *ast.ReturnStmt) []edit {
	var edits []edit
	if len(s.Results) != len(f.results) {
		return nil
	}
	for i, e := range s.Results {
		if f.returnsFailure(s) && i < len(s.Results)-1 {
			continue
		}
		switch f.source(e) {
		case "nil", "0", "false", `""`, "true": // editsOf inverts true
			continue
		}
		if lit, ok := e.(*ast.CompositeLit); ok && len(lit.Elts) == 0 {
			continue
		}
		edits = append(edits, edit{f.offset(e.Pos()), f.offset(e.End()), "*new(" + f.source(f.results[i]) + ")"})
	}
	return edits
}

// functionLiterals finds the points in the function literals of an expression.
func (f *sourceFile) functionLiterals(n ast.Node) {
	ast.Inspect(n, func(n ast.Node) bool {
		if fn, ok := n.(*ast.FuncLit); ok {
			f.body(fn.Type, fn.Body)
			return false
		}
		return true
	})
}
