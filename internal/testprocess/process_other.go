//go:build !unix

// Systems without the signals of Unix.

package testprocess

import (
	"errors"
	"syscall"
)

// Sending Stop or Continue fails, because no signal has these effects here.
const (
	Stop     = syscall.Signal(-1)
	Continue = syscall.Signal(-1)
)

// Detached returns nil, because processes need no attributes here.
func Detached() *syscall.SysProcAttr { return nil }

// As is Detached.
func As(_, _ int) *syscall.SysProcAttr { return nil }

// AwaitStop returns an error.
func AwaitStop(int) error { return errors.ErrUnsupported }

// ReservePort does nothing on this platform.
func ReservePort(int) (release func()) { return func() {} }
