package testsql

import "syscall"

// attributes makes the kernel kill a server when the test binary exits without closing it, for
// example after a panic. The server has a process group of its own, so that its children can be
// signalled with it.
func attributes() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true, Credential: credential()}
}
