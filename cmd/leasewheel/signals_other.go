//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

// Signals on systems that are not Unix.

package main

import (
	"os"
	"strings"
	"syscall"
)

// endSignals end a program that does not catch them.
var endSignals = []os.Signal{os.Interrupt, syscall.SIGTERM}

var runSignals []os.Signal

func catchChildren(chan<- os.Signal) {}
func reapOrphans()                   {}
func dieOf(int)                      {}
func passToJob(syscall.Signal)       {}
func surviveBrokenPipes()            {}

// signalNamed returns the signal with that name: this system can only end a process.
func signalNamed(name string) (syscall.Signal, bool) {
	name = strings.TrimPrefix(strings.ToUpper(name), "SIG")
	return syscall.SIGTERM, name == "TERM" || name == "KILL"
}
