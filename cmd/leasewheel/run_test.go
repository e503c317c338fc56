//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package main

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestRunReturnsAStatusForEachEnd(t *testing.T) {
	t.Parallel()
	server := shared.Server(t).URL()
	taken, wrong := t.Name()+":taken", t.Name()+":wrong"
	c := client(t, server)
	hold(t, c.Mutex(taken))
	hold(t, c.Semaphore(wrong, 2))
	plain := filepath.Join(t.TempDir(), "plain")
	require.NoError(t, os.WriteFile(plain, []byte("text"), 0o600))

	for _, test := range []struct {
		name   string
		args   string // separated by spaces; KEY is a free key
		code   int
		stderr string // a part of it; "" means that it is empty
	}{
		{"success", "run -k KEY -- true", 0, ""},
		{"without the hyphens", "run -k KEY true", 0, ""},
		{"status of the command", "run -k KEY -- sh -c exit${IFS}3", 3, ""},
		{"status 255", "run -k KEY -- sh -c exit${IFS}255", 255, ""},
		{"killed by SIGKILL", "run -k KEY -- sh -c kill${IFS}-9${IFS}$$", -int(syscall.SIGKILL), ""},
		{"killed by SIGTERM", "run -k KEY -- sh -c kill${IFS}-TERM${IFS}$$", -int(syscall.SIGTERM), ""},
		{"not found", "run -k KEY -- no-such-program", 127, "no-such-program"},
		{"not found at a path", "run -k KEY -- /no/such/program", 127, "/no/such/program"},
		{"not executable", "run -k KEY -- " + plain, 126, "permission denied"},
		{"not found beats taken", "run -n -k " + taken + " -- no-such-program", 127, "no-such-program"},
		{"taken", "run -n -k " + taken + " -- true", 75, "is taken for another"},
		{"taken for the whole wait", "run -w 5s -k " + taken + " -- true", 75, "waited for "},
		{"taken, no wait", "run -w 0 -k " + taken + " -- true", 75, taken},
		{"taken, other status", "run -n -E 1 -k " + taken + " -- true", 1, "is taken for another"},
		{"taken, status 0", "run -n -E 0 -q -k " + taken + " -- true", 0, ""},
		{"taken, quiet", "run -n -q -k " + taken + " -- true", 75, ""},
		{"lock of another kind", "run -n -k " + wrong + " -- true", 70, "is a semaphore, not a mutex"},
		{"unreachable", "run -url localhost:1 -k KEY -- true", 69, "unavailable"},
		{"unreachable, no waiting", "run -url localhost:1 -n -k KEY -- true", 69, "unavailable"},
		{"unreachable, bounded wait", "run -url localhost:1 -w 5s -k KEY -- true", 69, "unavailable"},
		{"no key", "run -- true", 64, "-key is needed"},
		{"bad key", "run -k } -- true", 64, "begins with '}'"},
		{"no command", "run -k KEY", 64, "usage: leasewheel run"},
		{"no command after the hyphens", "run -k KEY --", 64, "usage: leasewheel run"},
		{"unknown flag", "run -k KEY -what -- true", 64, "what"},
		{"unknown command", "walk -k KEY", 64, `unknown command "walk"`},
		{"bad duration", "run -k KEY -w soon -- true", 64, "soon"},
		{"wait and no wait", "run -k KEY -w 1s -n -- true", 64, "exclude each other"},
		{"reader and writer", "run -k KEY -read -write -- true", 64, "exclude each other"},
		{"minimum of a permit", "run -k KEY -permits 2 -min-hold 1s -- true", 64, "-min-hold is for"},
		{"permits", "run -k KEY -permits -1 -- true", 64, "-permits: it must be"},
		{"no permits", "run -k KEY -permits 0 -- true", 64, "-permits: it must be"},
		{"no unit", "run -k KEY -ttl 5 -- true", 64, "-ttl: it must be a number with a unit"},
		{"status out of range", "run -k KEY -E 256 -- true", 64, "0 to 255"},
		{"signal", "run -k KEY -signal LOUD -- true", 64, `"LOUD"`},
		{"action", "run -k KEY -on-lost pray -- true", 64, `"pray"`},
		{"negative grace", "run -k KEY -grace -1s -- true", 64, "negative"},
		{"grace too long", "run -k KEY -ttl 30s -grace 20s -- true", 64, "the longest grace for this TTL is 10.83s, and the shortest TTL for this grace 53.3s"},
		{"TTL too short", "run -k KEY -ttl 1s -- true", 64, "the shortest TTL for this grace"},
		{"TTL far too short", "run -k KEY -ttl 1ms -grace 0 -on-lost kill -- true", 64, "-ttl must be at least 100ms"},
		{"URL", "run -url ftp://u:canary@host -k KEY -- true", 64, "bad URL"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			key := url.QueryEscape(t.Name())
			args := strings.Fields(strings.ReplaceAll(test.args, "KEY", key))
			for i := range args {
				args[i] = strings.ReplaceAll(args[i], "${IFS}", " ")
			}
			out, errs, code := result(t, server, args...)
			assert.Equal(t, test.code, code)
			assert.Empty(t, out)
			if test.stderr == "" {
				assert.Empty(t, errs)
			} else {
				assert.Contains(t, errs, test.stderr)
				assert.Equal(t, 1, strings.Count(errs, "\n"), errs)
			}
			assert.NotContains(t, errs, "canary")
			assert.True(t, free(t, c, key), "the lock is released")
		})
	}
}

func TestRunPassesTheStreamsAndTheLockToTheCommand(t *testing.T) {
	t.Parallel()
	server, key := shared.Server(t).URL(), t.Name()
	script := `printf '%s %s ' "$LEASEWHEEL_KEY" "$LEASEWHEEL_TOKEN"; cat; echo oops >&2`
	var tokens []string
	for range 2 {
		p := newProgram(server, "run", "-k", key, "--", "sh", "-c", script)
		p.cmd.Stdin = strings.NewReader("input")
		p.start(t)
		assert.Zero(t, p.code(t))
		assert.Equal(t, "oops\n", p.err.String())
		fields := strings.Fields(p.out.String())
		require.Len(t, fields, 3, p.out.String())
		assert.Equal(t, []string{key, "input"}, []string{fields[0], fields[2]})
		tokens = append(tokens, fields[1])
	}
	assert.Less(t, tokens[0], tokens[1], "fencing tokens rise")
}

func TestRunInACommandTellsTheInnerLock(t *testing.T) {
	t.Parallel()
	outer, inner := t.Name()+"/outer", t.Name()+"/inner"
	out := stdoutOf(t, shared.Server(t).URL(), "run", "-k", outer, "--", os.Args[0], "run", "-k", inner, "--", "printenv", keyEnv)
	assert.Equal(t, inner+"\n", out)
}

func TestStartDoesNotRunTheCommand(t *testing.T) {
	t.Parallel()
	out, errs, code := result(t, "", childName, "abandons")
	assert.Equal(t, fmt.Sprintln(exitFailed, nil), out)
	assert.Empty(t, errs)
	assert.Zero(t, code)
}

// TestACommandRunsOnlyWhenItIsGuarded plays leasewheel, at the moment when it lets the command run.
func TestACommandRunsOnlyWhenItIsGuarded(t *testing.T) {
	t.Parallel()
	text := filepath.Join(t.TempDir(), "text")
	require.NoError(t, os.WriteFile(text, []byte("no program"), 0o700))
	for _, test := range []struct {
		name, path string
		begin      bool
		code       int
		out, err   string
	}{
		{"leasewheel was killed before", "/bin/echo", false, exitFailed, "", ""},
		{"leasewheel lets it run", "/bin/echo", true, 0, "a b\n", ""},
		{"the system does not execute the file", text, true, exitNotExecutable, "", "leasewheel: name: exec format error\n"},
		{"the file has gone", text + "2", true, exitNotFound, "", "leasewheel: name: no such file or directory\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			held, ahead, err := os.Pipe()
			require.NoError(t, err)
			p := newProgram("", heldName, test.path, "name", "a", "b")
			p.cmd.ExtraFiles = []*os.File{held}
			p.start(t)
			require.NoError(t, held.Close())
			if test.begin {
				_, err = ahead.Write([]byte{1})
				require.NoError(t, err)
			}
			require.NoError(t, ahead.Close())
			assert.Equal(t, test.code, p.code(t))
			assert.Equal(t, test.out, p.out.String())
			assert.Equal(t, test.err, p.err.String())
		})
	}
}

func TestRunHoldsTheLockWhileTheCommandRuns(t *testing.T) {
	t.Parallel()
	server := shared.Server(t).URL()
	c := client(t, server)
	for _, test := range []struct {
		name   string
		flags  []string
		beside []string // flags that get the same lock at the same time
		not    []string // flags that do not
	}{
		{"a mutex", nil, nil, []string{}},
		{"a reader", []string{"-read"}, []string{"-read"}, []string{"-write"}},
		{"a writer", []string{"-write"}, nil, []string{"-read"}},
		{"a permit", []string{"-permits", "1"}, nil, []string{"-permits", "1"}},
		{"one of two permits", []string{"-permits", "2"}, []string{"-permits", "2"}, nil},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			key := t.Name()
			p := start(t, server, runArgs(key, append(test.flags, "-meta", "why"), "signals")...)
			p.number(t, "pid")
			info, err := c.Inspect(t.Context(), key)
			require.NoError(t, err)
			require.Len(t, info.Holders, 1)
			assert.Equal(t, "why", info.Holders[0].Metadata)
			if test.beside != nil {
				assert.Empty(t, stdoutOf(t, server, runArgs(key, append(test.beside, "-n"), "exit", "0")...))
			}
			if test.not != nil {
				_, _, code := result(t, server, runArgs(key, append(test.not, "-n"), "exit", "0")...)
				assert.Equal(t, exitNotAcquired, code)
			}
			p.signal(t, 15)
			assert.Equal(t, 7, p.code(t))
			assert.True(t, free(t, c, key))
		})
	}
}

func TestRunNamesTheHolderByDefault(t *testing.T) {
	t.Parallel()
	server, key := shared.Server(t).URL(), t.Name()
	p := start(t, server, runArgs(key, nil, "signals")...)
	p.number(t, "pid")
	info, err := client(t, server).Inspect(t.Context(), key)
	require.NoError(t, err)
	require.Len(t, info.Holders, 1)
	assert.Contains(t, info.Holders[0].Metadata, filepath.Base(os.Args[0]))
	p.signal(t, 15)
	assert.Equal(t, 7, p.code(t))
}

func TestRunKeepsTheLockForItsMinHold(t *testing.T) {
	t.Parallel()
	server, key := shared.Server(t).URL(), t.Name()
	stdoutOf(t, server, runArgs(key, []string{"-min-hold", "1h"}, "exit", "0")...)
	info, err := client(t, server).Inspect(t.Context(), key)
	require.NoError(t, err)
	assert.Zero(t, info.Held)
	assert.Greater(t, info.FreeIn, time.Minute)
	_, _, code := result(t, server, runArgs(key, []string{"-n"}, "exit", "0")...)
	assert.Equal(t, exitNotAcquired, code)
	stdoutOf(t, server, "force-release", "-yes", key) // for -count
}

func TestWaitersGetTheLockInTheirOrder(t *testing.T) {
	t.Parallel()
	server, key := shared.Server(t).URL(), t.Name()
	c := client(t, server)
	held, err := c.Mutex(key).Lock(t.Context())
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "order")
	var all []*program
	for i, name := range []string{"one", "two", "three"} {
		all = append(all, start(t, server, "run", "-k", key, "-w", "1m", "--", "sh", "-c", "echo "+name+" >>"+file))
		awaitWaiting(t, c, key, i+1)
	}
	require.NoError(t, held.Unlock(t.Context()))
	for _, p := range all {
		assert.Zero(t, p.code(t), p.err.String())
	}
	order, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "one\ntwo\nthree\n", string(order))
}
