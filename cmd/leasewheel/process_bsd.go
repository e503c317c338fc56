//go:build darwin || dragonfly || freebsd || netbsd || openbsd

// What systems other than Linux lack for the process of a command.

package main

import (
	"os"
	"syscall"
)

// endWithParent does nothing: the guard alone stops the command when this process is killed.
func endWithParent(*syscall.SysProcAttr, syscall.Signal) {}

func adoptOrphans() {}

// descendants returns nothing: this process knows only the group of the command.
func descendants(_, _ int, _ []int) []int { return nil }

// programPath returns the path of this program.
func programPath() (string, error) { return os.Executable() }
