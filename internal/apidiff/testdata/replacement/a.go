// Package replacement lacks something of package original.
package replacement

import "time"

const (
	Changed = 3
	Equal   = "text"
	More    = 1
)

var (
	ChangedVar int64
	SameVar    error
)

type Same struct{ other, more string }

type Embedded struct{}

type Struct struct {
	Embedded *Embedded
	Kept     time.Duration
	More     int
}

func (Struct) Value(another string) Same { return Same{} }
func (*Struct) Gone2(list []int) error   { return nil }

type Grown interface {
	A()
	B()
}

type Func func(int) *Same

func Function(a, b Func) (Struct, []Grown) { return Struct{}, nil }
