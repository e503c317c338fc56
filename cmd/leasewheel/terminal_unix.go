//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

// The terminal, which the command gets.

package main

import (
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// terminal is the controlling terminal of this process. Its methods do nothing for nil.
type terminal struct {
	fd    int
	group int  // of this process
	given bool // to the command
}

// openTerminal returns the controlling terminal, nil if there is none.
func openTerminal() *terminal {
	fd, err := unix.Open("/dev/tty", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	return &terminal{fd: fd, group: unix.Getpgrp()}
}

// handsOver reports whether the command gets the terminal when it starts. In a pipeline such as
// leasewheel run ... | less it gets the terminal only if it asks for it: less would have
// to stop otherwise.
func (t *terminal) handsOver(std streams) bool {
	return t.isMine() && isTerminal(std.in) && isTerminal(std.out.File)
}

// isMine reports whether the group of this process is the one in the foreground.
func (t *terminal) isMine() bool {
	if t == nil {
		return false
	}
	group, err := unix.IoctlGetInt(t.fd, unix.TIOCGPGRP)
	return err == nil && group == t.group
}

// give makes a group the one in the foreground.
func (t *terminal) give(group int) {
	t.given = t.set(group) == nil
}

// takeBack makes the group of this process the one in the foreground, if the command has the
// terminal.
func (t *terminal) takeBack() {
	if t == nil || !t.given {
		return
	}
	t.given = false
	_ = t.set(t.group)
}

// set changes the group in the foreground. A process in the background would be stopped for
// that unless it ignores SIGTTOU.
func (t *terminal) set(group int) error {
	signal.Ignore(syscall.SIGTTOU)
	defer signal.Reset(syscall.SIGTTOU)
	return unix.IoctlSetPointerInt(t.fd, unix.TIOCSPGRP, group)
}

func (t *terminal) close() {
	if t != nil {
		_ = unix.Close(t.fd)
	}
}

// isTerminal reports whether a file is a terminal, the controlling one or another.
func isTerminal(f *os.File) bool {
	_, err := unix.IoctlGetWinsize(int(f.Fd()), unix.TIOCGWINSZ)
	return err == nil
}

// wasClosed reports whether a standard stream was closed when the program started. The Go runtime then opens os.DevNull for
// reading and writing in its place.
func wasClosed(f *os.File) bool {
	mode, err := unix.FcntlInt(f.Fd(), unix.F_GETFL, 0)
	if err != nil || mode&unix.O_ACCMODE != unix.O_RDWR {
		return false
	}
	null, err := os.Stat(os.DevNull)
	if err != nil {
		return false
	}
	own, err := f.Stat()
	return err == nil && os.SameFile(null, own)
}
