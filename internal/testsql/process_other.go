//go:build !unix

package testsql

import "syscall"

// Processes of this system know no signals to stand still and to go on: sending these ones fails.
const (
	stop = syscall.Signal(-1)
	cont = syscall.Signal(-1)
)

// attributes returns nil, because servers need no attributes here.
func attributes() *syscall.SysProcAttr { return nil }
