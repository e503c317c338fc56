package main

import (
	"fmt"
	"os"
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
	assert.Equal(t, 143, p.code(t), p.err.String())
}

func TestASuspendedJobWhoseLeaseHasEndedIsKilled(t *testing.T) {
	t.Parallel()
	server, key := shared.Server(t).URL(), t.Name()
	p := start(t, server, runArgs(key, losing(), "stubborn")...)
	pid := p.number(t, "pid")
	guards := children(t, p.cmd.Process.Pid, pid)
	require.Len(t, guards, 1)
	require.NoError(t, syscall.Kill(guards[0], syscall.SIGKILL)) // what leasewheel does alone
	p.signal(t, syscall.SIGTSTP)
	awaitState(t, p.cmd.Process.Pid, "T")
	assert.Empty(t, stdoutOf(t, server, "run", "-k", key, "--", "true"), "another holder")
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
	_, _, code := result(t, server, runArgs(key, []string{"-n"}, "exit", "0")...)
	assert.Equal(t, exitNotAcquired, code)
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
	require.NoError(t, syscall.Kill(guards[0], syscall.SIGCONT))
	assert.Equal(t, exitLost, p.code(t))
	assert.Contains(t, p.err.String(), "killing the command")
	assert.NotContains(t, p.out.String(), "got terminated")
}

func TestAGuardThatDiesDoesNotDisturb(t *testing.T) {
	t.Parallel()
	p := start(t, shared.Server(t).URL(), runArgs(t.Name(), nil, "signals")...)
	guards := children(t, p.cmd.Process.Pid, p.number(t, "pid"))
	require.Len(t, guards, 1)
	require.NoError(t, syscall.Kill(guards[0], syscall.SIGKILL))
	p.signal(t, syscall.SIGTERM)
	assert.Equal(t, 7, p.code(t), p.err.String())
}
