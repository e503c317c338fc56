//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

// The processes of a command: its group, its other descendants, and job control.

package main

import (
	"errors"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const platformNotes = ""

// process is a running command. It leads a process group of its own.
type process struct {
	pid      int
	session  int              // of this process, and of the command unless it starts another
	others   []int            // children that are older than the command: a script that became leasewheel by exec has left them
	changed  <-chan os.Signal // has a signal when a child has stopped or ended
	ended    chan struct{}    // closed by finish
	guard    *guardClient
	ahead    *os.File  // makes the process become the command
	terminal *terminal // nil: there is none
	std      streams
}

// start starts a process with the given environment, and before it the guard. The process becomes
// the command when begin is called, so that the guard can stop the command from its first moment on.
func (t *task) start(env []string, caught *signals) (*process, error) {
	p := &process{changed: caught.child, ended: make(chan struct{}), terminal: openTerminal(), std: t.std}
	p.session, _ = unix.Getsid(0)
	p.others = descendants(os.Getpid(), p.session, nil)
	attr := &syscall.ProcAttr{
		Env:   env,
		Files: []uintptr{t.std.in.Fd(), t.std.out.Fd(), t.std.err.Fd()},
		Sys:   &syscall.SysProcAttr{Setpgid: true},
	}
	if p.terminal.handsOver(t.std) {
		attr.Sys.Foreground, attr.Sys.Ctty = true, p.terminal.fd
		p.terminal.given = true
	}
	var err error
	if p.guard, err = startGuard(t.std); err != nil {
		p.finish()
		return nil, err
	}
	endWithParent(attr.Sys, t.signal)
	var ahead *os.File
	path, err := programPath()
	if err == nil {
		ahead, p.ahead, err = os.Pipe()
	}
	if err != nil {
		p.finish()
		return nil, fmt.Errorf("start the command: %w", err)
	}
	defer func() { _ = ahead.Close() }()
	attr.Files = append(attr.Files, ahead.Fd())
	args := append([]string{os.Args[0], heldName, t.path}, t.args...)
	adoptOrphans()
	if err := p.launch(path, args, attr); err != nil {
		p.finish()
		return nil, startError{t.args[0], err}
	}
	p.guard.begin(guardMessage{Group: p.pid, Parent: os.Getpid(), Others: p.others, Signal: int(t.signal), Grace: t.grace})
	return p, nil
}

// begin lets the command run. The guard knows its group and the deadline of the lease by now.
func (p *process) begin() {
	_, _ = p.ahead.Write([]byte{1}) // fails if the process was killed
	_ = p.ahead.Close()
}

// The signal of endWithParent belongs to the first thread, and only if that executes the command does the
// command get it.
func init() {
	if len(os.Args) > 1 && os.Args[1] == heldName {
		runtime.LockOSThread()
	}
}

// becomeCommand waits for begin and runs a command, whose path and arguments are args, in this
// process. It returns only if that fails: because leasewheel was killed before, or because the system does
// not execute the file.
func becomeCommand(args []string, std streams) int {
	ahead := os.NewFile(3, "ahead") // after the standard streams
	if n, _ := ahead.Read(make([]byte, 1)); n == 0 || len(args) < 2 {
		return exitFailed
	}
	_ = ahead.Close()
	return fail(std, startError{args[1], syscall.Exec(args[0], args[1:], os.Environ())})
}

// launch starts a program. Its thread stays until finish, because on Linux the program is signalled at the end of the thread
// that has started it.
func (p *process) launch(path string, args []string, attr *syscall.ProcAttr) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // until the goroutine ends, and the thread with it
		pid, err := syscall.ForkExec(path, args, attr)
		p.pid = pid
		started <- err
		if err == nil {
			<-p.ended
		}
	}()
	return <-started
}

// nextChild returns the state of a child that has changed it, 0 if there is none.
func nextChild() (pid int, state syscall.WaitStatus) {
	for {
		pid, err := syscall.Wait4(-1, &state, syscall.WNOHANG|syscall.WUNTRACED, nil)
		if !errors.Is(err, syscall.EINTR) {
			return max(pid, 0), state
		}
	}
}

// reapOrphans reaps the children that have ended while there is no command. The first process of a container has some.
func reapOrphans() {
	for {
		if pid, _ := nextChild(); pid == 0 {
			return
		}
	}
}

// reap takes in the new states of all children: the command, the guard, and descendants of the command whose parent has ended.
func (s *supervision) reap() {
	for pid, state := nextChild(); pid > 0; pid, state = nextChild() {
		switch {
		case pid == s.process.pid && state.Stopped():
			s.stopped(state)
		case pid == s.process.pid:
			s.commandEnded(state)
		case s.process.guard.is(pid):
			s.process.guardChanged(state)
		default: // another process may get its number
			s.process.others = slices.DeleteFunc(s.process.others, func(other int) bool { return other == pid })
		}
	}
}

// commandEnded takes in the end of the command. If a signal has killed it that this process has not passed on, while it had the
// terminal, the signal was typed.
func (s *supervision) commandEnded(state syscall.WaitStatus) {
	s.exited, s.status = true, statusOfState(state)
	sig, tty := state.Signal(), s.process.terminal
	if state.Signaled() && (sig == syscall.SIGINT || sig == syscall.SIGQUIT) && sig != s.forwarded && tty != nil && tty.given {
		s.typed = sig
	}
}

// statusOfState returns the status, for end, of a command that has ended.
func statusOfState(state syscall.WaitStatus) int {
	if state.Signaled() {
		return -int(state.Signal())
	}
	return state.ExitStatus()
}

// gone reports whether no process of the command is left. It is called after the end of the command. When its group has ended,
// the terminal is taken back, so that its keys reach this process.
func (p *process) gone() bool {
	if !errors.Is(syscall.Kill(-p.pid, 0), syscall.ESRCH) {
		return false
	}
	p.terminal.takeBack()
	return len(descendants(os.Getpid(), p.session, p.others)) == 0
}

// signal sends a signal to the group.
func (p *process) signal(sig syscall.Signal) {
	if err := syscall.Kill(-p.pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		warn(p.std.err, err)
	}
}

// signalAll sends a signal to the group and to all other processes of the command that can be found.
func (p *process) signalAll(sig syscall.Signal) {
	p.signal(sig)
	signalStrays(os.Getpid(), p.session, p.others, p.pid, sig)
}

// signalStrays sends a signal to the descendants of a process, leasewheel, that belong to the session but not to the group. It leaves out
// others.
func signalStrays(leasewheel, session int, others []int, group int, sig syscall.Signal) {
	for _, pid := range descendants(leasewheel, session, others) {
		if of, err := unix.Getpgid(pid); err == nil && of != group {
			_ = syscall.Kill(pid, sig) // fails if it has ended, or has become another user
		}
	}
}

// terminate asks all processes to end, including stopped ones.
func (p *process) terminate(sig syscall.Signal) {
	p.signalAll(sig)
	p.signalAll(syscall.SIGCONT)
}

func (p *process) killAll() { p.signalAll(syscall.SIGKILL) }

// report sends the guard the deadline of the lease.
func (p *process) report(deadline time.Time) { p.guard.report(deadline) }

// stopping informs the guard that the command has been asked to end within the budget.
func (p *process) stopping(budget time.Duration) { p.guard.stopping(time.Now().Add(budget)) }

// guardChanged takes in a new state of the guard. A guard that was stopped protects nothing, so it is killed.
func (p *process) guardChanged(state syscall.WaitStatus) {
	if state.Stopped() {
		_ = syscall.Kill(p.guard.pid, syscall.SIGKILL)
		return
	}
	p.guard.ended()
	fmt.Fprintf(p.std.err, "leasewheel: the guard, which stops the command if leasewheel is killed, has ended (%s); starting another\n", stateText(state))
}

// keepGuard starts another guard if there is none. It is called again and again.
func (p *process) keepGuard() {
	if err := p.guard.restart(p.std); err != nil {
		fmt.Fprintf(p.std.err, "leasewheel: %s; trying again\n", errorText(err))
	}
}

// stateText describes the end of a process.
func stateText(state syscall.WaitStatus) string {
	if state.Signaled() {
		return state.Signal().String()
	}
	return fmt.Sprintf("exit status %d", state.ExitStatus())
}

// finish ends the guard and takes the terminal back. A command that has not begun does not run.
func (p *process) finish() {
	close(p.ended)
	_ = p.ahead.Close() // an error if it was closed, or never opened
	p.guard.finish()
	p.terminal.takeBack()
	p.terminal.close()
}

// forward passes a signal on to the command. Signals that end a program go to all processes of the command, and those of the
// terminal to its group. SIGUSR1 and SIGUSR2 go to the command alone, because they would end each of its helpers that does not
// catch them.
func (s *supervision) forward(sig os.Signal) {
	number, ok := sig.(syscall.Signal)
	switch {
	case !ok || s.lost != nil && number == syscall.SIGCONT:
		return
	case number == syscall.SIGUSR1 || number == syscall.SIGUSR2:
		if !s.exited {
			if err := syscall.Kill(s.process.pid, number); err != nil && !errors.Is(err, syscall.ESRCH) {
				warn(s.std.err, err)
			}
		}
		return
	case ends(sig):
		s.forwarded = number
		s.process.signalAll(number)
		return
	}
	s.asked = number == syscall.SIGTSTP || s.asked && number != syscall.SIGCONT
	s.process.signal(number)
}

// stopped handles a stop of the command.
//
//	the command wants the terminal, and it is this process's    it gets the terminal and goes on
//	Ctrl-Z, or this process was asked to stop                   both stop until SIGCONT
//	another process has stopped the command                     nothing; the lock stays held
func (s *supervision) stopped(state syscall.WaitStatus) {
	sig, tty := state.StopSignal(), s.process.terminal
	wantsTerminal := sig == syscall.SIGTTIN || sig == syscall.SIGTTOU
	switch {
	case wantsTerminal && tty.isMine():
		tty.give(s.process.pid)
		s.process.signal(syscall.SIGCONT)
	case !s.asked && (tty == nil || !wantsTerminal && (sig != syscall.SIGTSTP || !tty.given)):
		// the lock stays held
	case canSuspend():
		s.suspend()
	case tty != nil && tty.given: // no shell would continue this process
		s.process.signal(syscall.SIGCONT)
	}
}

// suspend stops all processes of the command and then this one, so that the command never runs
// while nobody renews the lease. It returns after SIGCONT. If the lease has ended meanwhile the
// command is not continued.
func (s *supervision) suspend() {
	tty, byTerminal := s.process.terminal, !s.asked
	s.asked = false
	s.process.signalAll(syscall.SIGSTOP)
	given := tty != nil && tty.given
	tty.takeBack()
	signal.Ignore(syscall.SIGTSTP) // Go could deliver one that is caught after the SIGCONT that follows it
	s.forwardPending()
	if byTerminal {
		_ = syscall.Kill(0, syscall.SIGTSTP) // the other processes of the shell's job
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	for sig := <-s.caught.c; sig != syscall.SIGCONT; sig = <-s.caught.c {
		s.forward(sig)
	}
	s.caught.catchMore()
	if s.held.Err() != nil {
		return
	}
	if given && tty.isMine() {
		tty.give(s.process.pid)
	}
	s.process.signalAll(syscall.SIGCONT)
}

// forwardPending forwards the signals that have come, except those of job control.
func (s *supervision) forwardPending() {
	for {
		select {
		case sig := <-s.caught.c:
			if sig != syscall.SIGCONT && sig != syscall.SIGTSTP {
				s.forward(sig)
			}
		default:
			return
		}
	}
}

// canSuspend reports whether this process has a parent in its session, normally a shell that
// will continue it.
func canSuspend() bool {
	own, err := unix.Getsid(0)
	if err != nil {
		return false
	}
	parent, err := unix.Getsid(os.Getppid())
	return err == nil && own == parent
}
