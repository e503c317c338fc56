//go:build unix && !linux

// The other Unix systems.

package testprocess

import "syscall"

// Detached returns the attributes of a process with a process group of its own.
func Detached() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }
