//go:build unix

// Package testprocess is for the servers that tests start as processes, on each system that Go runs on.
package testprocess

import (
	"errors"
	"syscall"
)

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

// AwaitStop waits until a child of this process stands still after Stop. Until then its threads go on: on a busy
// machine for some ms, and one of them may still take a lock.
func AwaitStop(pid int) error {
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(pid, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return err
		case status.Stopped():
			return nil
		default:
			return errors.New("the process has ended")
		}
	}
}
