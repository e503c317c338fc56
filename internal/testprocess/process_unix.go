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

// ReservePort keeps a port of the address 127.0.0.1 without listening there, so that dials are refused, and neither
// another listener nor a connection gets the port. It returns a function that ends that. It does nothing if the
// port is taken.
func ReservePort(port int) (release func()) {
	syscall.ForkLock.RLock() // no program that is started meanwhile inherits the socket
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fd)
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return func() {}
	}
	_ = syscall.SetsockoptInt(fd, syscall.SOL_SOCKET, syscall.SO_REUSEADDR, 1) // connections of the last listener may remain
	if err := syscall.Bind(fd, &syscall.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}); err != nil {
		_ = syscall.Close(fd)
		return func() {}
	}
	return func() { _ = syscall.Close(fd) }
}
