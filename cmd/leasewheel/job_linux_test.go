package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// children returns the children of a process, except one.
func children(t *testing.T, pid, except int) []int {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	require.NoError(t, err)
	var found []int
	for _, list := range lists {
		text, err := os.ReadFile(list)
		require.NoError(t, err)
		for _, field := range strings.Fields(string(text)) {
			n, err := strconv.Atoi(field)
			require.NoError(t, err)
			if n != except {
				found = append(found, n)
			}
		}
	}
	return found
}

// awaitState waits until the state of a process in /proc is the given letter.
func awaitState(t *testing.T, pid int, letter string) {
	t.Helper()
	var stat []byte
	eventually(t, func() bool {
		stat, _ = os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		return strings.Contains(string(stat), ") "+letter+" ")
	}, func() string { return fmt.Sprintf("the state of %d is not %s: %s", pid, letter, stat) })
}

func TestASuspendedJobGoesOn(t *testing.T) {
	t.Parallel()
	p := start(t, shared.Server(t).URL(), runArgs(t.Name(), nil, "family")...)
	pid, helper := p.number(t, "pid"), p.number(t, "helper")
	p.signal(t, syscall.SIGTSTP)
	for _, each := range []int{pid, helper, p.cmd.Process.Pid} {
		awaitState(t, each, "T")
	}
	p.signal(t, syscall.SIGCONT)
	p.prints(t, "family got "+syscall.SIGCONT.String())
	p.prints(t, "helper got "+syscall.SIGCONT.String())
	require.NoError(t, syscall.Kill(helper, syscall.SIGKILL))
	p.signal(t, syscall.SIGTERM)
	assert.Equal(t, 7, p.code(t), p.err.String())
}

// TestACommandThatDoesNotStopIsNotLeftAlone: leasewheel stops only after its command has stopped.
func TestACommandThatDoesNotStopIsNotLeftAlone(t *testing.T) {
	t.Parallel()
	key := t.Name()
	script := `trap "" TSTP; echo ready=1; while :; do sleep 0.05; done`
	p := start(t, shared.Server(t).URL(), "run", "-k", key, "--", "sh", "-c", script)
	p.number(t, "ready")
	p.signal(t, syscall.SIGTSTP)
	p.signal(t, syscall.SIGTERM) // is forwarded after the other, by a process that runs
	assert.Equal(t, -int(syscall.SIGTERM), p.code(t), p.err.String())
}

func TestASuspendedJobWhoseLeaseHasEndedIsKilled(t *testing.T) {
	t.Parallel()
	server, key := shared.Server(t).URL(), t.Name()
	p := start(t, server, runArgs(key, losing(), "stubborn")...)
	pid := p.number(t, "pid")
	guards := children(t, p.cmd.Process.Pid, pid)
	require.Len(t, guards, 1)
	p.signal(t, syscall.SIGTSTP)
	awaitState(t, p.cmd.Process.Pid, "T")
	require.NoError(t, syscall.Kill(guards[0], syscall.SIGKILL)) // what leasewheel does alone
	assert.Empty(t, stdoutOf(t, server, "run", "-q", "-k", key, "--", "true"), "another holder")
	p.signal(t, syscall.SIGCONT)
	assert.Equal(t, exitLost, p.code(t))
	assert.NotContains(t, p.out.String(), "got", "the command has not run after the end of its lease")
	assert.False(t, alive(pid))
}

func TestACommandThatAnotherStopsKeepsItsLock(t *testing.T) {
	t.Parallel()
	server, key := shared.Server(t).URL(), t.Name()
	p := start(t, server, runArgs(key, nil, "signals")...)
	pid := p.number(t, "pid")
	require.NoError(t, syscall.Kill(pid, syscall.SIGSTOP))
	awaitState(t, pid, "T")
	_, errs, code := result(t, server, runArgs(key, []string{"-n"}, "exit", "0")...)
	assert.Equal(t, exitNotAcquired, code)
	assert.Contains(t, errs, filepath.Base(os.Args[0]), "the command is the metadata by default")
	p.signal(t, syscall.SIGCONT)
	p.prints(t, "got "+syscall.SIGCONT.String())
	p.signal(t, syscall.SIGTERM)
	assert.Equal(t, 7, p.code(t))
}

func TestWithoutTheGuardTheCommandIsKilledAfterItsGrace(t *testing.T) {
	t.Parallel()
	server, key := shared.Server(t).URL(), t.Name()
	p := start(t, server, runArgs(key, losing(), "stubborn")...)
	pid := p.number(t, "pid")
	guards := children(t, p.cmd.Process.Pid, pid)
	require.Len(t, guards, 1)
	require.NoError(t, syscall.Kill(guards[0], syscall.SIGKILL))
	stdoutOf(t, server, "force-release", "-yes", key)
	assert.Equal(t, exitLost, p.code(t))
	assert.Contains(t, p.out.String(), "got terminated")
	assert.False(t, alive(pid))
}

// TestWithoutTheGuardTheKernelSignalsTheCommand kills the guard and then leasewheel.
func TestWithoutTheGuardTheKernelSignalsTheCommand(t *testing.T) {
	t.Parallel()
	p := start(t, shared.Server(t).URL(), runArgs(t.Name(), nil, "signals")...)
	pid := p.number(t, "pid")
	guards := children(t, p.cmd.Process.Pid, pid)
	require.Len(t, guards, 1)
	require.NoError(t, syscall.Kill(guards[0], syscall.SIGKILL))
	p.signal(t, syscall.SIGKILL)
	awaitDead(t, pid)
	p.prints(t, "got terminated")
}

// TestAfterASleepTheCommandIsKilledAtOnce stops all three processes until the lease has ended, as
// the sleep of a machine does, and continues leasewheel alone.
func TestAfterASleepTheCommandIsKilledAtOnce(t *testing.T) {
	t.Parallel()
	server, key := shared.Server(t).URL(), t.Name()
	p := start(t, server, runArgs(key, losing(), "stubborn")...)
	pid := p.number(t, "pid")
	guards := children(t, p.cmd.Process.Pid, pid)
	require.Len(t, guards, 1)
	other := start(t, server, "run", "-k", key, "--", "true")
	awaitWaiting(t, client(t, server), key, 1)
	for _, each := range []int{guards[0], pid, p.cmd.Process.Pid} {
		require.NoError(t, syscall.Kill(each, syscall.SIGSTOP))
	}
	assert.Zero(t, other.code(t), "the lease has ended")
	p.signal(t, syscall.SIGCONT)
	awaitDead(t, pid)
	assert.Equal(t, exitLost, p.code(t))
	assert.Contains(t, p.err.String(), "killing the command")
	assert.NotContains(t, p.out.String(), "got terminated")
}

// TestAGuardThatDiesIsReplaced kills or stops the guard, and then leasewheel: the next guard knows the command and its lease.
func TestAGuardThatDiesIsReplaced(t *testing.T) {
	t.Parallel()
	for _, sig := range []syscall.Signal{syscall.SIGKILL, syscall.SIGSTOP} {
		t.Run(sig.String(), func(t *testing.T) {
			t.Parallel()
			p := start(t, shared.Server(t).URL(), runArgs(t.Name(), []string{"-grace", "100ms"}, "stubborn")...)
			pid := p.number(t, "pid")
			guards := children(t, p.cmd.Process.Pid, pid)
			require.Len(t, guards, 1)
			require.NoError(t, syscall.Kill(guards[0], sig))
			var next []int
			eventually(t, func() bool {
				next = children(t, p.cmd.Process.Pid, pid)
				return len(next) == 1 && next[0] != guards[0] && strings.Contains(p.err.String(), "the guard, which stops the command if leasewheel is killed, has ended (killed)")
			}, func() string { return fmt.Sprintf("children %v after %v, stderr %q", next, guards, &p.err) })
			p.signal(t, syscall.SIGWINCH) // is handled after the start of the guard
			p.prints(t, "got "+syscall.SIGWINCH.String())
			p.signal(t, syscall.SIGKILL)
			awaitDead(t, pid) // it ignores SIGTERM, which the kernel sends
		})
	}
}

// TestOrphansAreReaped is about the duty of a process that adopts orphans.
func TestOrphansAreReaped(t *testing.T) {
	t.Parallel()
	const script = `for i in 1 2 3 4 5 6 7 8 9 10; do (true &); (setsid true &); done; echo ready=1; read x`
	for _, first := range []bool{false, true} {
		t.Run(fmt.Sprintf("first process %v", first), func(t *testing.T) {
			t.Parallel()
			args := []string{"run", "-k", t.Name(), "--", "sh", "-c", script}
			p := newProgram(shared.Server(t).URL(), args...)
			if first {
				inNamespace(t, p)
			}
			keyboard, err := p.cmd.StdinPipe()
			require.NoError(t, err)
			p.start(t)
			p.number(t, "ready")
			leasewheel := p.cmd.Process.Pid
			if first {
				leasewheel = children(t, leasewheel, 0)[0] // of unshare
			}
			var left []int
			eventually(t, func() bool { left = children(t, leasewheel, 0); return len(left) == 2 },
				func() string { return fmt.Sprintf("children beside the command and the guard: %v", left) })
			require.NoError(t, keyboard.Close())
			assert.Equal(t, 1, p.code(t), p.err.String()) // of read
		})
	}
}

// inNamespace makes the program the first process of a namespace.
func inNamespace(t *testing.T, p *program) {
	t.Helper()
	if out, err := exec.Command("unshare", "--pid", "--fork", "--mount-proc", "true").CombinedOutput(); err != nil {
		t.Skipf("no namespace: %v: %s", err, out)
	}
	p.cmd.Args = append([]string{"unshare", "--pid", "--fork", "--kill-child", "--mount-proc"}, p.cmd.Args...)
	p.cmd.Path = "/usr/bin/unshare"
}

// TestTheFirstProcessReturnsTheStatusOfItsSignal: such a process cannot die of a signal.
func TestTheFirstProcessReturnsTheStatusOfItsSignal(t *testing.T) {
	t.Parallel()
	p := newProgram(shared.Server(t).URL(), "run", "-k", t.Name(), "--", "sh", "-c", "echo ready=1; exec sleep 60")
	inNamespace(t, p)
	p.start(t)
	p.number(t, "ready")
	for _, leasewheel := range children(t, p.cmd.Process.Pid, 0) {
		require.NoError(t, syscall.Kill(leasewheel, syscall.SIGTERM))
	}
	assert.Equal(t, exitSignal+int(syscall.SIGTERM), p.code(t), p.err.String())
}

// TestWhatLeavesTheGroupKeepsTheLock compares a process with a group of its own with one that has left the session.
func TestWhatLeavesTheGroupKeepsTheLock(t *testing.T) {
	t.Parallel()
	server := shared.Server(t).URL()
	p := start(t, server, runArgs(t.Name(), nil, "lone")...)
	helper := p.number(t, "helper")
	awaitDead(t, p.number(t, "pid"))
	p.signal(t, syscall.SIGHUP)
	p.prints(t, "helper got "+syscall.SIGHUP.String())
	_, _, code := result(t, server, runArgs(t.Name(), []string{"-n"}, "exit", "0")...)
	assert.Equal(t, exitNotAcquired, code)
	require.NoError(t, syscall.Kill(helper, syscall.SIGKILL))
	assert.Equal(t, 3, p.code(t))

	daemon := start(t, server, "run", "-k", t.Name(), "--", "setsid", "-f", "sh", "-c", "echo daemon=$$; exec sleep 60 >/dev/null 2>&1")
	pid := daemon.number(t, "daemon")
	assert.Zero(t, daemon.code(t))
	assert.True(t, alive(pid))
	require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
}

// TestOlderChildrenAreLeftAlone runs leasewheel in the process of a script, which has a child of its own.
func TestOlderChildrenAreLeftAlone(t *testing.T) {
	t.Parallel()
	server := shared.Server(t).URL()
	for _, end := range []string{"of the command", "of the lock", "of leasewheel"} {
		t.Run(end, func(t *testing.T) {
			t.Parallel()
			script := `sleep 60 >/dev/null 2>&1 & echo other=$!; exec "$0" "$@"`
			p := newProgram(server, append([]string{"-c", script, os.Args[0]}, runArgs(t.Name(), losing(), "signals")...)...)
			p.cmd.Path, p.cmd.Args[0] = "/bin/sh", "sh"
			p.start(t)
			other, pid := p.number(t, "other"), p.number(t, "pid")
			t.Cleanup(func() { _ = syscall.Kill(other, syscall.SIGKILL) })
			switch end {
			case "of the command":
				require.NoError(t, syscall.Kill(pid, syscall.SIGTERM))
				assert.Equal(t, 7, p.code(t), p.err.String())
			case "of the lock":
				stdoutOf(t, server, "force-release", "-yes", t.Name())
				assert.Equal(t, exitLost, p.code(t), p.err.String())
			case "of leasewheel":
				p.signal(t, syscall.SIGSTOP) // the guard acts
				awaitDead(t, pid)
			}
			assert.True(t, alive(other))
		})
	}
}
