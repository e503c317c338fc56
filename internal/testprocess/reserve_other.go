//go:build !unix

// This file is about ports that nobody listens on.

package testprocess

// ReservePort does nothing on this platform.
func ReservePort(int) (release func()) { return func() {} }
