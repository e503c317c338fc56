// This file is about what Linux has for the process of a command.

package main

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// endWithParent makes the kernel send a signal to the command when this process ends. It is
// for the case that the guard is killed as well.
func endWithParent(attr *syscall.SysProcAttr, sig syscall.Signal) { attr.Pdeathsig = sig }

// adoptOrphans makes this process the parent of the descendants whose parent ends. It can then
// reap them, and so sees their group end even in a container without an init process.
func adoptOrphans() { _ = unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// programPath returns the path of this program, even if its file was replaced.
func programPath() (string, error) { return "/proc/self/exe", nil }
