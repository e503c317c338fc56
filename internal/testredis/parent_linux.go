package testredis

import (
	"os/exec"
	"syscall"
)

// endWithParent lets the kernel kill the server when the test binary ends without
// having closed it, as after a panic.
func endWithParent(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
}
