package chance

import (
	"reflect"
	"unsafe"

	"github.com/leasewheel/leasewheel/lock"
)

// Settle replaces what a client has drawn at its making, when its first renewal
// stands, by a share from 0 to 1. The seed decides that too, or no failure could be
// played again. It is the one thing that a simulation does to the code it runs.
func Settle(c *lock.Client, share float64) {
	core := reflect.ValueOf(c).Elem().FieldByName("core").Elem()
	spread := core.FieldByName("dog").Elem().FieldByName("spread")
	*(*float64)(unsafe.Pointer(spread.UnsafeAddr())) = share / 2
}
