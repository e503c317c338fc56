//go:build unix

// Package testprocess is for the servers that tests start as processes, on each system that Go runs on.
package testprocess

import "syscall"

// Stop makes a process stand still, and Continue ends that.
const (
	Stop     = syscall.SIGSTOP
	Continue = syscall.SIGCONT
)

// As returns Detached of a process that runs as another user.
func As(uid, gid int) *syscall.SysProcAttr {
	a := Detached()
	a.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return a
}
