//go:build unix

// Ports that nobody listens on.

package testprocess

import "syscall"

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
