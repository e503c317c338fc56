//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

// Stopping processes on Unix.

package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"
	"time"
)

const canStop = true // this system has SIGSTOP

// stopSelf stops this process with all its threads. A shell continues it after d, which wake waits for.
func stopSelf(d time.Duration) (wake func() error, err error) {
	cmd := exec.Command("sh", "-c", fmt.Sprintf("sleep %.3f; kill -CONT %d", d.Seconds(), os.Getpid()))
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return cmd.Wait, syscall.Kill(os.Getpid(), syscall.SIGSTOP)
}

func stopProcess(p *os.Process) error { return p.Signal(syscall.SIGSTOP) }

func continueProcess(p *os.Process) error { return p.Signal(syscall.SIGCONT) }

// detach keeps the signals of the terminal, such as that of Ctrl-C, from the command.
func detach(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// supervise runs this program again with the same flags, in a child process that may stop itself. The shell
// waits for this process and does not notice that. The end of ctx interrupts the child. supervise returns its
// exit status.
func supervise(ctx context.Context) (code int, err error) {
	exe, err := os.Executable()
	if err != nil {
		return 0, err
	}
	cmd := exec.CommandContext(ctx, exe, os.Args[1:]...)
	cmd.Env = append(os.Environ(), supervisedEnv+"=1")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	detach(cmd)
	cmd.Cancel = func() error { return errors.Join(cmd.Process.Signal(os.Interrupt), continueProcess(cmd.Process)) }
	input, err := cmd.StdinPipe() // the child ends with it
	if err != nil {
		return 0, err
	}
	defer func() { _ = input.Close() }()
	if err := cmd.Run(); cmd.ProcessState == nil {
		return 0, err
	}
	return cmd.ProcessState.ExitCode(), nil
}
