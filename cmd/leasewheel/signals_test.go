//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package main

import (
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestSignalsAreForwarded(t *testing.T) {
	t.Parallel()
	server := shared.Server(t).URL()
	for _, test := range []struct {
		sig   syscall.Signal
		group bool // whether the other processes of the command get it
	}{
		{syscall.SIGINT, true},
		{syscall.SIGTERM, true},
		{syscall.SIGHUP, true},
		{syscall.SIGQUIT, true},
		{syscall.SIGWINCH, true},
		{syscall.SIGCONT, true},
		{syscall.SIGUSR1, false},
		{syscall.SIGUSR2, false},
	} {
		t.Run(test.sig.String(), func(t *testing.T) {
			t.Parallel()
			p := start(t, server, runArgs(t.Name(), nil, "family")...)
			p.number(t, "pid")
			helper := p.number(t, "helper")
			p.signal(t, test.sig)
			p.prints(t, "family got "+test.sig.String())
			if test.group {
				p.prints(t, "helper got "+test.sig.String())
			} else {
				p.signal(t, syscall.SIGWINCH) // the helper gets signals in order
				p.prints(t, "helper got "+syscall.SIGWINCH.String())
				assert.NotContains(t, p.out.String(), "helper got "+test.sig.String())
			}
			require.NoError(t, syscall.Kill(helper, syscall.SIGKILL))
			p.signal(t, syscall.SIGTERM)
			assert.Equal(t, 7, p.code(t), "%s", &p.err)
			assert.Empty(t, p.err.String())
		})
	}
}

func TestASignalEndsTheWaitAndLeavesTheQueue(t *testing.T) {
	t.Parallel()
	server := shared.Server(t).URL()
	c := client(t, server)
	for _, name := range []string{"run", "elect", "acquire"} {
		for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1} {
			t.Run(name+" "+sig.String(), func(t *testing.T) {
				t.Parallel()
				key := t.Name()
				hold(t, c.Mutex(key))
				args := []string{name, "-k", key}
				if name != "acquire" {
					args = append(args, self("exit", "0")...)
				}
				p := start(t, server, args...)
				awaitWaiting(t, c, key, 1)
				p.signal(t, syscall.SIGCONT) // ends nothing
				p.signal(t, syscall.SIGWINCH)
				p.signal(t, sig)
				assert.Equal(t, -int(sig), p.code(t), "it dies of the signal")
				assert.Empty(t, p.out.String(), "the command has not run")
				awaitWaiting(t, c, key, 0)
			})
		}
	}
}

func TestIgnoredSignalsStayIgnored(t *testing.T) {
	t.Parallel()
	server, key := shared.Server(t).URL(), t.Name()
	script := `trap "" HUP; exec "$0" run -k "$1" -- sh -c 'kill -HUP $PPID; kill -HUP $$; echo both run'`
	cmd := exec.Command("sh", "-c", script, self()[0], key)
	cmd.Env = environ(server)
	out, err := cmd.CombinedOutput()
	require.NoError(t, err)
	assert.Equal(t, "both run\n", string(out))
}

// TestTheLockIsHeldUntilAllProcessesHaveEnded is about commands whose helpers outlive them: the
// lock protects what the helpers still do.
func TestTheLockIsHeldUntilAllProcessesHaveEnded(t *testing.T) {
	t.Parallel()
	server := shared.Server(t).URL()
	for _, command := range []string{"orphan", "lone"} {
		t.Run(command, func(t *testing.T) {
			t.Parallel()
			skipStray(t, command)
			p := start(t, server, runArgs(t.Name(), nil, command)...)
			helper := p.number(t, "helper")
			awaitDead(t, p.number(t, "pid"))
			p.signal(t, syscall.SIGHUP) // still goes to the helper
			p.prints(t, "helper got "+syscall.SIGHUP.String())
			_, _, code := result(t, server, runArgs(t.Name(), []string{"-n"}, "exit", "0")...)
			assert.Equal(t, exitNotAcquired, code)
			require.NoError(t, syscall.Kill(helper, syscall.SIGKILL))
			assert.Equal(t, 3, p.code(t), "the status of the command")
			assert.True(t, free(t, client(t, server), t.Name()))
			assert.Empty(t, strings.TrimSpace(p.err.String()))
		})
	}
}
