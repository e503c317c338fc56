//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

// The process of a command on systems that are not Unix.

package main

import (
	"errors"
	"os"
	"os/exec"
	"time"
)

const platformNotes = "\nOn this system the command is killed at once when the lock is lost, without a signal before. Its own child\n" +
	"processes run on. If leasewheel is killed or stopped, nobody stops the command. Signals are not forwarded;\n" +
	"Ctrl-C reaches the command through the console.\n"

// process is a running command.
type process struct {
	cmd     *exec.Cmd
	changed chan os.Signal // has a value when the command has ended
}

// start starts the command with the given environment.
func (t *task) start(env []string, _ *signals) (*process, error) {
	cmd := exec.Command(t.path, t.args[1:]...)
	cmd.Args[0] = t.args[0]
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, t.std.in, t.std.out.File, t.std.err.File
	if err := cmd.Start(); err != nil {
		return nil, startError{t.args[0], err}
	}
	p := &process{cmd, make(chan os.Signal, 1)}
	go func() {
		_ = cmd.Wait()
		p.changed <- os.Kill
	}()
	return p, nil
}

// reap takes in the end of the command.
func (s *supervision) reap() { s.exited, s.status = true, s.process.cmd.ProcessState.ExitCode() }

func (p *process) gone() bool             { return true }
func (p *process) killAll()               { _ = p.cmd.Process.Kill() }
func (p *process) terminate(os.Signal)    { p.killAll() }
func (p *process) report(time.Time)       {}
func (p *process) begin()                 {}
func (p *process) keepGuard()             {}
func (p *process) stopping(time.Duration) {}
func (p *process) finish()                {}
func (s *supervision) forward(os.Signal)  {}
func wasClosed(*os.File) bool             { return false }

func guard(std streams) int                     { return fail(std, errors.ErrUnsupported) }
func becomeCommand(_ []string, std streams) int { return fail(std, errors.ErrUnsupported) }
