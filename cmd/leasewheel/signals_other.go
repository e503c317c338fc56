//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

// This file is about signals on systems that are not Unix.

package main

import (
	"os"
	"strings"
	"syscall"
)

// endSignals end a program that does not catch them.
var endSignals = []os.Signal{os.Interrupt, syscall.SIGTERM}

var runSignals []os.Signal

func surviveBrokenPipes() {}

// signalNamed returns the signal with that name: this system can only end a process.
func signalNamed(name string) (syscall.Signal, bool) {
	name = strings.TrimPrefix(strings.ToUpper(name), "SIG")
	return syscall.SIGTERM, name == "TERM" || name == "KILL"
}
