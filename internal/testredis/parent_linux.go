package testredis

import (
	"os/exec"
	"syscall"
)

// endWithParent makes the kernel kill the server when the test binary exits without closing
// it, for example after a panic. The server has a process group of its own: if the tests run in
// the background and their shell exits, their group becomes an orphan, and the kernel continues
// the stopped processes of an orphaned group.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
}
