//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

// Stopping processes on Unix.

package demo

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"time"
)

const canStop = true // this system has SIGSTOP

// stopSelf stops this process with all its threads. The process goes on after another process
// has continued it.
func stopSelf() error { return syscall.Kill(os.Getpid(), syscall.SIGSTOP) }

func stopProcess(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func continueProcess(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// detach keeps the signals of the terminal, such as that of Ctrl-C, from the command.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// supervise runs this program again with the same flags, in a child process. Each time that the
// child stops itself, supervise continues it after the pause. It passes signals on to the
// child, and returns its exit status. The shell waits for this process and does not
// notice that the child is stopped.
func supervise(ctx context.Context, pause time.Duration) (code int, err error) {
	exe, err := os.Executable()
	if err != nil {
		return 0, err
	}
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	defer signal.Stop(signals)
	if ctx.Err() != nil {
		return exitInterrupted, nil
	}
	cmd := exec.Command(exe, os.Args[1:]...)
	cmd.Env = append(os.Environ(), supervisedEnv+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	detach(cmd)                   // the child gets signals through this process only
	input, err := cmd.StdinPipe() // the child ends with it
	if err != nil {
		return 0, err
	}
	defer func() { _ = input.Close() }()
	if err := cmd.Start(); err != nil {
		return 0, err
	}
	states := make(chan syscall.WaitStatus)
	go func() {
		defer close(states)
		for {
			var state syscall.WaitStatus
			_, err := syscall.Wait4(cmd.Process.Pid, &state, syscall.WUNTRACED, nil)
			if errors.Is(err, syscall.EINTR) {
				continue
			}
			if err != nil {
				return
			}
			states <- state
			if !state.Stopped() {
				return
			}
		}
	}()
	var pauseOver <-chan time.Time
	for {
		select {
		case sig := <-signals:
			_ = syscall.Kill(cmd.Process.Pid, sig.(syscall.Signal))
			_ = syscall.Kill(cmd.Process.Pid, syscall.SIGCONT)
		case <-pauseOver:
			_ = syscall.Kill(cmd.Process.Pid, syscall.SIGCONT)
		case state, ok := <-states:
			switch {
			case !ok:
				return 0, errors.New("the child process has ended without a status")
			case state.Stopped():
				pauseOver = time.After(pause)
			case state.Signaled():
				return 128 + int(state.Signal()), nil
			default:
				return state.ExitStatus(), nil
			}
		}
	}
}
