// Linux, which can kill a process when its parent ends.

package testprocess

import "syscall"

// Detached returns the attributes of a process with a process group of its own, so that it stays
// stopped if this process runs in the background and its shell exits: the kernel continues the stopped
// processes of an orphaned group. Linux kills the process when this one ends, for example by a panic.
func Detached() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
