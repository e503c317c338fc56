//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package main

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
)

// rival starts a program that waits for the lock and then prints whether each of the processes is
// alive.
func rival(t *testing.T, server, key string, pids ...int) *program {
	t.Helper()
	args := []string{"alive"}
	for _, pid := range pids {
		args = append(args, strconv.Itoa(pid))
	}
	p := start(t, server, runArgs(key, []string{"-w", "1m"}, args...)...)
	awaitWaiting(t, client(t, server), key, 1)
	return p
}

// skipStray skips a test of processes that have left the group, on systems where leasewheel does not find them.
func skipStray(t *testing.T, command string) {
	t.Helper()
	if (command == "stray" || command == "lone") && runtime.GOOS != "linux" {
		t.Skip("only Linux finds them")
	}
}

// assertDead asserts that the rival has run and found all processes dead.
func assertDead(t *testing.T, rival *program, pids ...int) {
	t.Helper()
	assert.Zero(t, rival.code(t), rival.err.String())
	var want strings.Builder
	for _, pid := range pids {
		fmt.Fprintf(&want, "%d=dead\n", pid)
	}
	assert.Equal(t, want.String(), rival.out.String(), "when the rival got the lock")
}

// TestTheCommandEndsBeforeTheLeaseCanBeAnothers cuts leasewheel off from the server. A rival that
// is not cut off gets the lock after the end of the lease.
func TestTheCommandEndsBeforeTheLeaseCanBeAnothers(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		command string
		flags   []string
		term    bool // the command gets SIGTERM first
	}{
		{"signals", nil, true},
		{"stubborn", nil, true},
		{"family", nil, true}, // its helper is stubborn
		{"orphan", nil, true},
		{"stray", nil, true}, // Linux finds what has left the group
		{"lone", nil, true},
		{"stubborn", []string{"-grace", "0"}, false},
		{"stubborn", []string{"-signal", "INT"}, true},
	} {
		t.Run(test.command+strings.Join(test.flags, " "), func(t *testing.T) {
			t.Parallel()
			skipStray(t, test.command)
			server := shared.Server(t)
			proxy := testredis.StartProxy(t, server)
			key := t.Name()
			p := start(t, "redis://"+proxy.Client(t).Options().Addr, runArgs(key, losing(test.flags...), test.command)...)
			pids := []int{p.number(t, "pid")}
			if test.command != "signals" && test.command != "stubborn" {
				pids = append(pids, p.number(t, "helper"))
			}
			other := rival(t, server.URL(), key, pids...)
			proxy.Block()
			assertDead(t, other, pids...)
			assert.Equal(t, exitLost, p.code(t))
			assert.Contains(t, p.err.String(), fmt.Sprintf("lost the lock %q: deadline passed", key))
			sig := syscall.SIGTERM
			if len(test.flags) == 2 && test.flags[1] == "INT" {
				sig = syscall.SIGINT
			}
			assert.Equal(t, test.term, strings.Contains(p.out.String(), "got "+sig.String()), p.out.String())
			proxy.Unblock()
		})
	}
}

// TestALockThatIsTakenAwayStopsTheCommand is the loss of which the server tells: the next holder
// may be active already.
func TestALockThatIsTakenAwayStopsTheCommand(t *testing.T) {
	t.Parallel()
	server := shared.Server(t).URL()
	for _, test := range []struct {
		name, command string
		flags         []string
		stdout        string // a part of it
		stderr        string
	}{
		{"with a signal", "signals", nil, "got terminated", "stopping the command"},
		{"by force", "stubborn", nil, "got terminated", "stopping the command"},
		{"at once", "signals", []string{"-grace", "0"}, "", "killing the command"},
		{"with what was seen", "signals", nil, "", "; seen: the store has no such lease; stopping"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			key := t.Name()
			p := start(t, server, runArgs(key, losing(test.flags...), test.command)...)
			pid := p.number(t, "pid")
			assert.Empty(t, stdoutOf(t, server, "force-release", "-yes", key))
			eventually(t, func() bool { return strings.Contains(p.err.String(), test.stderr) }, p.err.String)
			assert.Equal(t, exitLost, p.code(t), p.err.String())
			assert.Contains(t, p.out.String(), test.stdout)
			assert.Contains(t, p.err.String(), "lost the lock")
			assert.False(t, alive(pid))
		})
	}
}

func TestMaxHoldEndsTheCommand(t *testing.T) {
	t.Parallel()
	server, key := shared.Server(t).URL(), t.Name()
	p := start(t, server, runArgs(key, losing("-max-hold", "1s"), "signals")...)
	assert.Equal(t, exitLost, p.code(t))
	assert.Contains(t, p.err.String(), "limit reached")
	assert.True(t, free(t, client(t, server), key), "released at once, not after the TTL")
}

// TestAServerThatHangsAtTheEndCostsNoStatus checks that the status of the command is kept.
func TestAServerThatHangsAtTheEndCostsNoStatus(t *testing.T) {
	t.Parallel()
	server := testredis.Start(t)
	p := start(t, server.URL(), runArgs(t.Name(), nil, "signals")...)
	p.number(t, "pid")
	require.NoError(t, server.Stop())
	p.signal(t, syscall.SIGTERM)
	assert.Equal(t, 7, p.code(t))
	assert.Contains(t, p.err.String(), "the release of its lock is not confirmed")
	require.NoError(t, server.Cont())
}

func TestAPausedProgramDoesNotLeaveItsCommandRunning(t *testing.T) {
	t.Parallel()
	server := shared.Server(t).URL()
	for _, command := range []string{"signals", "stubborn", "family", "stray", "lone"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			skipStray(t, command)
			key := t.Name()
			p := start(t, server, runArgs(key, losing(), command)...)
			pids := []int{p.number(t, "pid")}
			if command != "signals" && command != "stubborn" {
				pids = append(pids, p.number(t, "helper"))
			}
			other := rival(t, server, key, pids...)
			p.signal(t, syscall.SIGSTOP)
			assertDead(t, other, pids...)
			p.signal(t, syscall.SIGCONT)
			assert.Equal(t, exitLost, p.code(t))
			assert.Contains(t, p.out.String(), "got "+syscall.SIGTERM.String(), "the guard has asked it to end first")
			assert.Contains(t, p.err.String(), "the lock is not renewed; stopping the command")
		})
	}
}

func TestAKilledProgramTakesItsCommandAlong(t *testing.T) {
	t.Parallel()
	server := shared.Server(t).URL()
	for _, command := range []string{"signals", "stubborn", "family"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			p := start(t, server, runArgs(t.Name(), losing(), command)...)
			pids := []int{p.number(t, "pid")}
			if command == "family" {
				pids = append(pids, p.number(t, "helper"))
			}
			p.signal(t, syscall.SIGKILL)
			for _, pid := range pids {
				awaitDead(t, pid)
			}
			eventually(t, func() bool { return strings.Contains(p.out.String(), "got terminated") }, p.out.String)
		})
	}
}
