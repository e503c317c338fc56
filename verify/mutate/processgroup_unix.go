//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// setProcessGroup gives the program a process group of its own. A test that is killed
// may leave processes behind; killProcessGroup ends them.
func setProcessGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

func killProcessGroup(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // fails if no process is left, which is usual
	}
}
