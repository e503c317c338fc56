//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

// The guard: a second process that stops the command if this one cannot.

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	guardInterval = 200 * time.Millisecond // between two looks of a guard at the clocks
	sendTimeout   = 100 * time.Millisecond // of a message to a guard that does not read
	guardTimeout  = time.Second            // for a guard to end
	guardPause    = time.Second            // between the starts of two guards
)

// guardClient is the guard of a command, as leasewheel sees it.
//
// The guard is a process that stops the command if leasewheel cannot: because it was
// killed, or because it is stopped when the lease ends. If it is killed itself, another takes its place.
type guardClient struct {
	pid     int // 0: it has ended
	pipe    *os.File
	started time.Time
	failed  bool // to start, and the user knows

	command  guardMessage // the first message
	deadline time.Time    // of the last report
	kill     time.Time    // of the command that is stopping
}

// startGuard starts a guard.
func startGuard(std streams) (*guardClient, error) {
	g := &guardClient{}
	return g, g.start(std)
}

// start starts the process, in a session of its own so that signals of the terminal and of the
// shell do not reach it.
func (g *guardClient) start(std streams) error {
	g.started = time.Now()
	path, err := programPath()
	if err != nil {
		return fmt.Errorf("start the guard: %w", err)
	}
	in, out, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("start the guard: %w", err)
	}
	g.pid, err = syscall.ForkExec(path, []string{os.Args[0], guardName}, &syscall.ProcAttr{
		Env:   os.Environ(),
		Files: []uintptr{in.Fd(), std.err.Fd(), std.err.Fd()},
		Sys:   &syscall.SysProcAttr{Setsid: true},
	})
	_ = in.Close()
	if err != nil {
		g.pid = 0
		_ = out.Close()
		return fmt.Errorf("start the guard: %w", err)
	}
	g.pipe = out
	return nil
}

// is reports whether a child is the guard.
func (g *guardClient) is(pid int) bool { return g.pid == pid }

// ended takes in that the process has ended.
func (g *guardClient) ended() {
	g.pid = 0
	_ = g.pipe.Close()
}

// restart starts another process if the last has ended, at most one each guardPause, and sends it all that the last one knew. It returns
// only the first of the errors that follow each other.
func (g *guardClient) restart(std streams) error {
	if g.pid != 0 || time.Since(g.started) < guardPause {
		return nil
	}
	if err := g.start(std); err != nil {
		known := g.failed
		g.failed = true
		if known {
			return nil
		}
		return err
	}
	g.failed = false
	g.send(g.command)
	if !g.kill.IsZero() {
		g.stopping(g.kill)
	}
	g.deadline = time.Time{} // the next report sends it
	return nil
}

// begin sends the guard the command to guard.
func (g *guardClient) begin(m guardMessage) {
	g.command = m
	g.send(m)
}

// stopping informs the guard that the command has been asked to end, and when it is to be killed.
func (g *guardClient) stopping(kill time.Time) {
	g.kill = kill
	g.send(guardMessage{Stopping: true, Left: time.Until(kill), Wall: kill.UnixNano()})
}

// send sends the guard a message. It does not wait for long if the guard hangs.
func (g *guardClient) send(m guardMessage) {
	if g.pid == 0 {
		return
	}
	line, err := json.Marshal(m)
	if err != nil {
		return
	}
	_ = g.pipe.SetWriteDeadline(time.Now().Add(sendTimeout))
	_, _ = g.pipe.Write(append(line, '\n')) // if the guard has ended, its state shows it
}

// report sends the guard the deadline of the lease, if it has changed.
func (g *guardClient) report(deadline time.Time) {
	if deadline.IsZero() {
		return
	}
	if moved := deadline.Sub(g.deadline); -time.Millisecond < moved && moved < time.Millisecond {
		return
	}
	g.deadline = deadline
	g.send(guardMessage{Wall: deadline.UnixNano(), Left: time.Until(deadline)})
}

// finish ends the guard.
func (g *guardClient) finish() {
	if g.pid == 0 {
		return
	}
	g.send(guardMessage{Done: true})
	_ = g.pipe.Close()
	timer := time.AfterFunc(guardTimeout, func() { _ = syscall.Kill(g.pid, syscall.SIGKILL) }) // it is stopped, or still prints
	defer timer.Stop()
	for {
		if _, err := syscall.Wait4(g.pid, nil, 0, nil); !errors.Is(err, syscall.EINTR) {
			return
		}
	}
}

// guard is the guard itself: it reads messages from stdin and stops the command if that is due.
func guard(std streams) int {
	signal.Ignore(syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE)
	messages := make(chan guardMessage)
	go func() {
		defer close(messages)
		for in := json.NewDecoder(std.in); ; {
			var m guardMessage
			if in.Decode(&m) != nil {
				return
			}
			messages <- m
		}
	}()
	var state guardState
	for alone := false; ; {
		select {
		case m, ok := <-messages:
			switch {
			case !ok:
				alone, messages = true, nil
				state.abandoned(time.Now())
			case m.Done:
				return 0
			default:
				state.apply(m, time.Now())
			}
		case <-time.After(state.wait(time.Now(), guardInterval)):
		}
		state.act(std)
		if alone && (state.killed || state.group == 0 || errors.Is(syscall.Kill(-state.group, 0), syscall.ESRCH)) {
			return 0
		}
	}
}

// act sends the signals that are due, and then informs the user. What has left the group of the command is found only
// as long as leasewheel exists. After the KILL, act kills what has started since.
func (g *guardState) act(std streams) {
	terminate, kill := g.due(time.Now())
	switch {
	case g.killed:
		g.signalAll(syscall.SIGKILL)
		if kill {
			fmt.Fprintln(std.err, "leasewheel: the lock is not renewed; killing the command")
		}
	case terminate:
		g.signalAll(syscall.Signal(g.signal))
		g.signalAll(syscall.SIGCONT)
		fmt.Fprintln(std.err, "leasewheel: the lock is not renewed; stopping the command")
	}
}

// signalAll sends a signal to all processes of the command that the guard can find.
func (g *guardState) signalAll(sig syscall.Signal) {
	_ = syscall.Kill(-g.group, sig)
	if session, err := unix.Getsid(g.parent); err == nil && os.Getppid() == g.parent {
		signalStrays(g.parent, session, g.others, g.group, sig)
	}
}
