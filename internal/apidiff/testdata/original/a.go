// Package original is compared with package replacement.
package original

import "time"

const (
	Changed = 2
	Equal   = "text"
)

var (
	ChangedVar int
	SameVar    error
)

type Same struct{ private int }

type Embedded struct{}

type Struct struct {
	Embedded
	Kept time.Duration
	Gone string
}

func (Struct) Value(name string) Same   { return Same{} }
func (*Struct) Gone2(list ...int) error { return nil }
func (*Struct) private()                {}

type Grown interface{ A() }

type Func func(n int) *Same

func Missing() {}

func Function(first, second Func) (Struct, []Grown) { return Struct{}, nil }

func unexported() {}
