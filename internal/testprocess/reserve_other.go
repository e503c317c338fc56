//go:build !unix

// Ports that nobody listens on.

package testprocess

// ReservePort does nothing on this platform.
func ReservePort(int) (release func()) { return func() {} }
