//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

// This file is about the guard: a second process that stops the command if this one cannot.

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

const (
	guardInterval = 200 * time.Millisecond // between two looks of a guard at the clocks
	sendTimeout   = 100 * time.Millisecond // of a message to a guard that does not read
	guardTimeout  = time.Second            // for a guard to end
)

// guardClient is a running guard, as leasewheel sees it. Its methods do nothing for nil.
//
// The guard is a process that stops the command if leasewheel cannot: because it was
// killed, or because it is stopped when the lease ends.
type guardClient struct {
	cmd      *exec.Cmd
	pipe     *os.File
	deadline time.Time // of the last report
}

// startGuard starts a guard, in a session of its own so that signals of the terminal and of the
// shell do not reach it.
func startGuard(std streams) (*guardClient, error) {
	path, err := programPath()
	if err != nil {
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	in, out, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	cmd := exec.Command(path, guardName)
	cmd.Args[0] = os.Args[0]
	cmd.Stdin, cmd.Stderr = in, std.err.File
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	err = cmd.Start()
	_ = in.Close()
	if err != nil {
		_ = out.Close()
		return nil, fmt.Errorf("start the guard: %w", err)
	}
	return &guardClient{cmd: cmd, pipe: out}, nil
}

// send tells the guard something. It does not wait for long if the guard hangs.
func (g *guardClient) send(m guardMessage) {
	if g == nil {
		return
	}
	line, err := json.Marshal(m)
	if err != nil {
		return
	}
	_ = g.pipe.SetWriteDeadline(time.Now().Add(sendTimeout))
	_, _ = g.pipe.Write(append(line, '\n'))
}

// report tells the guard the deadline of the lease, if it has changed.
func (g *guardClient) report(deadline time.Time) {
	if g == nil || deadline.IsZero() {
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
	if g == nil {
		return
	}
	g.send(guardMessage{Done: true})
	_ = g.pipe.Close()
	timer := time.AfterFunc(guardTimeout, func() { _ = g.cmd.Process.Kill() }) // it is stopped, or still prints
	defer timer.Stop()
	_ = g.cmd.Wait()
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

// act sends the signals that are due, and then tells the user.
func (g *guardState) act(std streams) {
	terminate, kill := g.due(time.Now())
	switch {
	case kill:
		_ = syscall.Kill(-g.group, syscall.SIGKILL)
		fmt.Fprintln(std.err, "leasewheel: the lock is not renewed; killing the command")
	case terminate:
		_ = syscall.Kill(-g.group, syscall.Signal(g.signal))
		_ = syscall.Kill(-g.group, syscall.SIGCONT)
		fmt.Fprintln(std.err, "leasewheel: the lock is not renewed; stopping the command")
	}
}
