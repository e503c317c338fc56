//go:build unix

package main

import (
	"os/exec"
	"syscall"
)

// alone gives a program a process group, which endGroup ends: a test may have started
// processes that outlive it, if it is killed.
func alone(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}

func endGroup(cmd *exec.Cmd) {
	if cmd.Process != nil {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // as a rule there is none left
	}
}
