//go:build unix && !linux

package testsql

import "syscall"

// attributes gives a server a process group of its own, so that its children can be signalled
// with it.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Credential: credential()}
}
