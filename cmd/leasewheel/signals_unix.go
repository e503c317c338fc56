//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

// Signals on Unix.

package main

import (
	"fmt"
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

// catchChildren sends a signal to c when a child has stopped or ended. It also undoes that SIGCHLD was ignored, because the
// kernel would then keep no state of a child.
func catchChildren(c chan<- os.Signal) { signal.Notify(c, syscall.SIGCHLD) }

// dieOf ends this process by a signal, without a core dump. It returns if that is not possible. Go has no way to restore the
// default action of each signal, and exec restores all.
func dieOf(number int) {
	_ = syscall.Exec("/bin/sh", []string{"sh", "-c", fmt.Sprintf("ulimit -c 0; kill -%d $$; exit %d", number, exitSignal+number)}, nil)
}

// passToJob sends a signal that was typed while the command had the terminal to the process group of this process, which the
// terminal would have signalled otherwise.
func passToJob(typed syscall.Signal) {
	if typed != 0 {
		_ = syscall.Kill(0, typed)
	}
}

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
