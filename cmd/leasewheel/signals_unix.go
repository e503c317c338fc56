//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

// This file is about signals on Unix.

package main

import (
	"os"
	"os/signal"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// endSignals end a program that does not catch them.
var endSignals = []os.Signal{
	syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2,
}

// runSignals are caught only while a command runs.
var runSignals = []os.Signal{syscall.SIGTSTP, syscall.SIGCONT, syscall.SIGWINCH}

// surviveBrokenPipes makes a write to a pipe without a reader an error, where otherwise the process would end with its lock
// held. A command gets the signal as usual.
func surviveBrokenPipes() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// signalNamed returns the signal with a name such as TERM or SIGTERM.
func signalNamed(name string) (syscall.Signal, bool) {
	name = strings.ToUpper(name)
	if !strings.HasPrefix(name, "SIG") {
		name = "SIG" + name
	}
	sig := unix.SignalNum(name)
	return sig, sig != 0
}
