package main

import (
	"go/ast"
	"go/token"
	"strconv"
)

// change replaces bytes of a file.
type change struct {
	from, to int
	text     string
}

// others are the operators that come in the place of one.
var others = map[token.Token][]token.Token{
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

// isTruth tells operators whose result is true or false.
func isTruth(op token.Token) bool {
	switch op {
	case token.LSS, token.LEQ, token.GTR, token.GEQ, token.EQL, token.NEQ, token.LAND, token.LOR:
		return true
	}
	return false
}

// changesIn returns the changes of an expression, or of a statement without blocks,
// but for those in functions that stand in it.
func (f *finder) changesIn(n ast.Node) []change {
	var changes []change
	replace := func(at token.Pos, op token.Token) {
		from := f.at(at)
		for _, other := range others[op] {
			changes = append(changes, change{from, from + len(op.String()), other.String()})
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
				changes = append(changes, change{f.at(n.OpPos), f.at(n.OpPos) + 1, ""})
			}
		case *ast.BasicLit:
			changes = append(changes, f.neighbours(n)...)
		case *ast.Ident:
			if n.Name == "true" || n.Name == "false" {
				changes = append(changes, change{f.at(n.Pos()), f.at(n.End()), strconv.FormatBool(n.Name == "false")})
			}
		}
		return true
	})
	return changes
}

// neighbours are the numbers before and after one.
func (f *finder) neighbours(n *ast.BasicLit) []change {
	if n.Kind != token.INT {
		return nil
	}
	from, to := f.at(n.Pos()), f.at(n.End())
	if n.Value == "0" {
		return []change{{from, to, "1"}}
	}
	return []change{{from, to, "(" + n.Value + " + 1)"}, {from, to, "(" + n.Value + " - 1)"}}
}

// definition is for one that declares variables: it cannot stand in a block of its
// own. What is free of effects is reckoned again after it.
func (f *finder) definition(s *ast.AssignStmt) {
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
	var changes []change
	for _, e := range s.Rhs {
		changes = append(changes, f.changesIn(e)...)
	}
	if p := f.point(afterward, s, changes); p != nil {
		p.op = s.Tok
	}
}

// isPure tells that an expression can be reckoned twice, the second time when these
// names have their values.
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

// expressions is for what cannot be chosen as a whole: those parts of it are that
// can be, where they stand.
func (f *finder) expressions(n ast.Node) {
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
			if isTruth(n.Op) {
				f.point(condition, n, f.changesIn(n))
				f.functionsIn(n)
				return false
			}
			f.operation(n)
		case *ast.UnaryExpr:
			if n.Op == token.NOT {
				f.point(condition, n, f.changesIn(n))
				return false
			}
		case *ast.BasicLit:
			for _, c := range f.neighbours(n) {
				f.point(constant, n, []change{c})
				break // one is enough: the other would need a point within this one
			}
		}
		return true
	})
}

func (f *finder) operation(n *ast.BinaryExpr) {
	other := others[n.Op]
	if len(other) == 0 {
		return
	}
	from := f.at(n.OpPos)
	p := f.point(operation, n, []change{{from, from + len(n.Op.String()), other[0].String()}})
	p.x, p.y, p.op = n.X, n.Y, n.Op
}
