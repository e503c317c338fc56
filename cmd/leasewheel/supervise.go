// Watching a running command, and stopping it after a loss.

package main

import (
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/leasewheel/leasewheel/lock"
)

const (
	checkInterval = 100 * time.Millisecond // between two looks at the clocks and the processes
	killTimeout   = 10 * time.Second       // for killed processes to end
)

// supervision watches a running command. Its goroutine is that of run.
//
//	state                      left by
//	running                    the end of the command, a loss
//	stopping after a loss      the end of all processes, or the end of the grace: KILL
//	killed                     the end of all processes, or killTimeout
//	ended, processes remain    the end of these processes, a loss
type supervision struct {
	*task
	process *process
	held    *lock.Held
	caught  *signals

	exited    bool
	status    int            // of the command, for end
	typed     syscall.Signal // see outcome
	forwarded syscall.Signal // the last signal that was passed on to all processes
	lost      error
	kill      <-chan time.Time // the end of the grace
	giveUp    <-chan time.Time // the end of killTimeout
	asked     bool             // a signal asked to suspend the command
}

// run returns when the command and all its processes have ended.
func (s *supervision) run() outcome {
	ended, wanted := s.held.Done(), s.held.Wanted()
	tick := time.NewTicker(checkInterval)
	defer tick.Stop()
	s.process.report(s.held.Deadline())
	s.process.begin()
	for {
		if err := s.held.Err(); err != nil && s.lost == nil {
			s.lose(err)
		}
		select {
		case <-ended:
			ended = nil
		case <-wanted:
			wanted = nil
			if s.lost == nil {
				s.forward(s.yield)
			}
		case sig := <-s.caught.c:
			s.forward(sig)
		case <-s.process.changed:
			s.reap()
		case <-s.kill:
			s.killAll()
		case <-s.giveUp:
			fmt.Fprintln(s.std.err, "leasewheel: some processes of the command are still running")
			return s.outcome()
		case <-tick.C:
			s.process.keepGuard()
			s.process.report(s.held.Deadline())
			if s.giveUp != nil {
				s.process.killAll() // those that have started since
			}
		}
		if s.exited && s.process.gone() {
			return s.outcome()
		}
	}
}

// outcome returns the result.
func (s *supervision) outcome() outcome {
	if s.lost == nil {
		s.lost = s.held.Err()
	}
	if s.lost != nil {
		return outcome{status: exitLost, lost: s.lost}
	}
	return outcome{status: s.status, typed: s.typed}
}

// lose stops the command, and then informs the user why.
func (s *supervision) lose(err error) {
	s.lost = err
	budget := s.budget(err)
	if budget <= 0 {
		s.killAll()
		s.describe(s.held.Key(), err, "killing the command")
		return
	}
	s.process.stopping(budget)
	s.process.terminate(s.signal)
	s.kill = time.After(budget)
	s.describe(s.held.Key(), err, "stopping the command")
}

// killAll kills all processes of the command.
func (s *supervision) killAll() {
	s.kill = nil
	s.process.killAll()
	if s.giveUp == nil {
		s.giveUp = time.After(killTimeout)
	}
}

// warn prints that a signal could not be sent.
func warn(stderr io.Writer, err error) {
	if err != nil {
		fmt.Fprintln(stderr, "leasewheel: cannot signal the command:", err)
	}
}
