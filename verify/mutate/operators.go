package main

import (
	"go/ast"
	"go/token"
	"strconv"
)

// edit replaces the bytes [from, to) of a file by a text.
type edit struct {
	from, to int
	text     string
}

// replacements has the operators that replace an operator.
var replacements = map[token.Token][]token.Token{
	token.LSS: {token.LEQ, token.GEQ}, token.LEQ: {token.LSS, token.GTR},
	token.GTR: {token.GEQ, token.LEQ}, token.GEQ: {token.GTR, token.LSS},
	token.EQL: {token.NEQ}, token.NEQ: {token.EQL},
	token.LAND: {token.LOR}, token.LOR: {token.LAND},
	token.ADD: {token.SUB}, token.SUB: {token.ADD}, token.MUL: {token.QUO}, token.QUO: {token.MUL}, token.REM: {token.MUL},
	token.AND: {token.OR}, token.OR: {token.AND}, token.XOR: {token.AND}, token.AND_NOT: {token.AND},
	token.SHL: {token.SHR}, token.SHR: {token.SHL},
	token.ADD_ASSIGN: {token.SUB_ASSIGN}, token.SUB_ASSIGN: {token.ADD_ASSIGN},
	token.MUL_ASSIGN: {token.QUO_ASSIGN}, token.QUO_ASSIGN: {token.MUL_ASSIGN},
	token.OR_ASSIGN: {token.AND_ASSIGN}, token.AND_ASSIGN: {token.OR_ASSIGN}, token.AND_NOT_ASSIGN: {token.OR_ASSIGN},
	token.SHL_ASSIGN: {token.SHR_ASSIGN}, token.SHR_ASSIGN: {token.SHL_ASSIGN},
	token.INC: {token.DEC}, token.DEC: {token.INC},
}

// isBoolean reports whether the result of an operator is a boolean.
func isBoolean(op token.Token) bool {
	switch op {
	case token.LSS, token.LEQ, token.GTR, token.GEQ, token.EQL, token.NEQ, token.LAND, token.LOR:
		return true
	}
	return false
}

// editsOf returns the edits of an expression or simple statement. It skips function
// literals; functionLiterals adds their points.
func (f *sourceFile) editsOf(n ast.Node) []edit {
	var edits []edit
	replace := func(pos token.Pos, op token.Token) {
		from := f.offset(pos)
		for _, other := range replacements[op] {
			edits = append(edits, edit{from, from + len(op.String()), other.String()})
		}
	}
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit, *ast.ArrayType, *ast.StructType:
			return false
		case *ast.BinaryExpr:
			replace(n.OpPos, n.Op)
		case *ast.AssignStmt:
			replace(n.TokPos, n.Tok)
		case *ast.IncDecStmt:
			replace(n.TokPos, n.Tok)
		case *ast.UnaryExpr:
			if n.Op == token.NOT || n.Op == token.SUB {
				edits = append(edits, edit{f.offset(n.OpPos), f.offset(n.OpPos) + 1, ""})
			}
		case *ast.BasicLit:
			edits = append(edits, f.adjacentNumbers(n)...)
		case *ast.Ident:
			if n.Name == "true" || n.Name == "false" {
				edits = append(edits, edit{f.offset(n.Pos()), f.offset(n.End()), strconv.FormatBool(n.Name == "false")})
			}
		}
		return true
	})
	return edits
}

// adjacentNumbers returns the edits that replace an integer n by n+1 and n-1.
func (f *sourceFile) adjacentNumbers(n *ast.BasicLit) []edit {
	if n.Kind != token.INT {
		return nil
	}
	from, to := f.offset(n.Pos()), f.offset(n.End())
	if n.Value == "0" {
		return []edit{{from, to, "1"}}
	}
	return []edit{{from, to, "(" + n.Value + " + 1)"}, {from, to, "(" + n.Value + " - 1)"}}
}

// definition adds a short variable declaration. A declaration cannot move into a branch,
// so the mutants assign to the variables after it. That is possible only if the right
// side has no side effects; otherwise parts of it become points.
func (f *sourceFile) definition(s *ast.AssignStmt) {
	names := make(map[string]bool)
	for _, e := range s.Lhs {
		names[e.(*ast.Ident).Name] = true
	}
	pure := !names["_"]
	for _, e := range s.Rhs {
		pure = pure && isPure(e, names)
	}
	if !pure {
		f.expressions(s)
		return
	}
	var edits []edit
	for _, e := range s.Rhs {
		edits = append(edits, f.editsOf(e)...)
	}
	if p := f.point(definition, s, edits); p != nil {
		p.op = s.Tok
	}
}

// isPure reports whether an expression has the same value when it is evaluated again
// after an assignment to these names.
func isPure(e ast.Expr, names map[string]bool) bool {
	pure := true
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit, *ast.CompositeLit, *ast.TypeAssertExpr:
			pure = false
		case *ast.UnaryExpr:
			pure = pure && n.Op != token.ARROW && n.Op != token.AND
		case *ast.CallExpr:
			fn, ok := n.Fun.(*ast.Ident)
			pure = pure && ok && (fn.Name == "len" || fn.Name == "cap" || fn.Name == "min" || fn.Name == "max")
		case *ast.Ident:
			pure = pure && !names[n.Name]
		}
		return pure
	})
	return pure
}

// expressions adds parts of a node that cannot be a point as a whole: conditions,
// operations and numbers.
func (f *sourceFile) expressions(n ast.Node) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			f.body(n.Type, n.Body)
			return false
		case *ast.ArrayType, *ast.GenDecl:
			if d, ok := n.(*ast.GenDecl); ok && d.Tok == token.VAR {
				return true
			}
			return false
		case *ast.BinaryExpr:
			if isBoolean(n.Op) {
				f.point(condition, n, f.editsOf(n))
				f.functionLiterals(n)
				return false
			}
			f.operation(n)
		case *ast.UnaryExpr:
			if n.Op == token.NOT {
				f.point(condition, n, f.editsOf(n))
				return false
			}
		case *ast.BasicLit:
			for _, c := range f.adjacentNumbers(n) {
				f.point(constant, n, []edit{c})
				break // the second edit would need a point inside this one
			}
		}
		return true
	})
}

func (f *sourceFile) operation(n *ast.BinaryExpr) {
	other := replacements[n.Op]
	if len(other) == 0 {
		return
	}
	from := f.offset(n.OpPos)
	p := f.point(operation, n, []edit{{from, from + len(n.Op.String()), other[0].String()}})
	p.x, p.y, p.op = n.X, n.Y, n.Op
}
