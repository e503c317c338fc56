package testredis

import (
	"os/exec"
	"syscall"
)

// endWithParent makes the kernel kill the server when the test binary exits without closing
// it, for example after a panic.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
