// A run of a command and its outcome.

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/renewal"
)

// task is a command to be run while a lock is held.
type task struct {
	path    string // of the program
	args    []string
	grace   time.Duration
	reserve time.Duration // from the KILL to the end of the lease
	signal  syscall.Signal
	yield   syscall.Signal // when others wait; 0: none
	std     streams
}

// outcome is how a run of a task has ended.
type outcome struct {
	status int            // for end
	lost   error          // why the lock was not held to the end
	typed  syscall.Signal // a signal of the terminal, of which the command has died; 0 if there was none
}

// heldName is the command of a process that becomes the command of a task. Users do not call it.
const heldName = "held"

// startError is a program that cannot be started.
type startError struct {
	name string
	err  error
}

func (e startError) Error() string { return fmt.Sprintf("%s: %v", e.name, e.err) }

// code returns the exit status.
func (e startError) code() int {
	if errors.Is(e.err, exec.ErrNotFound) || errors.Is(e.err, fs.ErrNotExist) {
		return exitNotFound
	}
	return exitNotExecutable
}

// newTask returns the task for a command line. It looks for the program before any lock is
// taken; the error is then a startError.
func newTask(args []string, std streams) (*task, error) {
	path, err := exec.LookPath(args[0])
	if err != nil {
		var not *exec.Error
		if errors.As(err, &not) {
			err = not.Err
		}
		return nil, startError{args[0], err}
	}
	return &task{path: path, args: args, std: std}, nil
}

// environment returns the environment of the command. If leasewheel itself runs under a lock, most programs
// would find the key and token of that one, which come first.
func environment(held *lock.Held) []string {
	inherited := slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return name == keyEnv || name == tokenEnv
	})
	return append(inherited, keyEnv+"="+held.Key(), tokenEnv+"="+strconv.FormatUint(held.Token(), 10))
}

// run runs the command and returns after all its processes have ended, or could not be
// killed. The caller then unlocks. A command that cannot be started returns the status for that.
func (t *task) run(held *lock.Held, caught *signals) outcome {
	if err := held.Err(); err != nil {
		return outcome{status: exitLost, lost: err}
	}
	caught.catchMore()
	defer caught.catchLess()
	p, err := t.start(environment(held), caught)
	if err != nil {
		return outcome{status: fail(t.std, err)}
	}
	defer p.finish()
	s := supervision{task: t, process: p, held: held, caught: caught}
	return s.run()
}

// budget returns how long the command may take to end after a loss. It is 0 or less if the
// lease may be another's already.
func (t *task) budget(lost error) time.Duration {
	var why *renewal.LostError
	if errors.As(lost, &why) && why.Reason == renewal.ReasonExpired {
		return min(t.grace, why.Left-t.reserve/2)
	}
	return t.grace // the server has answered that the lock is gone, or it is held still
}

// describe prints why the lock was lost.
func (t *task) describe(key string, lost error, doing string) {
	fmt.Fprintf(t.std.err, "leasewheel: lost the lock %q: %v; %s\n", key, oneLine(lossText(lost)), doing)
}

// lossText returns the reason and the cause of a loss.
func lossText(lost error) string {
	var why *renewal.LostError
	if !errors.As(lost, &why) {
		return lost.Error()
	}
	text := why.Reason.String()
	if cause := why.Cause(); cause != renewal.CauseUnknown {
		text += " (" + cause.String() + ")"
	}
	if why.Err != nil {
		text += ": " + why.Err.Error()
	}
	if seen := why.Seen(); seen != "" {
		text += "; seen: " + seen
	}
	return text
}
