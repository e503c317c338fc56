//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
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
		{"an empty variable as key", "run -k -- true", 64, "-key is needed"},
		{"bad key", "run -k } -- true", 64, "begins with '}'"},
		{"no command", "run -k KEY", 64, "run has 0 arguments; usage: leasewheel run [flags] -key KEY"},
		{"no command after the hyphens", "run -k KEY --", 64, "run has 0 arguments; usage: leasewheel run"},
		{"flags before the command", "-ttl 10s run -k KEY -- true", 64, `"-ttl" is no command: flags follow the command`},
		{"unknown flag", "run -k KEY -what -- true", 64, "-what; see leasewheel help run"},
		{"a TTL alone", "run -k KEY -ttl 10s -- true", 0, ""},
		{"a short TTL alone", "run -k KEY -ttl 1s -- true", 0, ""},
		{"no TTL", "run -k KEY -ttl 0 -- true", 64, "-ttl must be 100ms to "},
		{"negative limit", "run -k KEY -max-hold -1s -- true", 64, "-max-hold: it must not be negative"},
		{"negative minimum", "run -k KEY -min-hold -1s -- true", 64, "-min-hold: it must not be negative"},
		{"a TTL without a unit is seconds", "run -k KEY -ttl 5 -grace 0.1 -max-hold 60 -min-hold 0 -- true", 0, ""},
		{"unknown command", "walk -k KEY", 64, `unknown command "walk"`},
		{"bad duration", "run -k KEY -w soon -- true", 64, "soon"},
		{"negative wait", "run -k " + taken + " -w -5s -- true", 64, "it must not be negative"},
		{"a wait without a unit is seconds", "run -k " + taken + " -w 5 -- true", 75, "waited for "},
		{"reader and writer", "run -k KEY -read -write -- true", 64, "exclude each other"},
		{"minimum of a permit", "run -k KEY -permits 2 -min-hold 1s -- true", 64, "-min-hold is for"},
		{"a semaphore that yields", "run -k KEY -permits 2 -yield USR1 -- true", 64, "-yield is not for -permits"},
		{"a signal to yield", "run -k KEY -yield LOUD -- true", 64, `"LOUD"`},
		{"permits", "run -k KEY -permits -1 -- true", 64, "-permits: it must be"},
		{"no permits", "run -k KEY -permits 0 -- true", 64, "-permits: it must be"},
		{"bad TTL", "run -k KEY -ttl 5x -- true", 64, "-ttl: it must be a number of seconds, or have a unit"},
		{"status out of range", "run -k KEY -E 256 -- true", 64, "0 to 255"},
		{"signal", "run -k KEY -signal LOUD -- true", 64, `"LOUD"`},
		{"negative grace", "run -k KEY -grace -1s -- true", 64, "negative"},
		{"grace too long", "run -k KEY -ttl 30s -grace 20s -- true", 64, "the longest grace for this TTL is 10.83s, and the shortest TTL for this grace 53.3s"},
		{"TTL too short for the grace", "run -k KEY -ttl 1s -grace 1s -- true", 64, "the shortest TTL for this grace"},
		{"TTL too short", "run -k KEY -ttl 200ms -grace 0 -- true", 64, "the shortest TTL is 600ms"},
		{"URL", "run -url ftp://u:canary@host -k KEY -- true", 64, "leasewheel uses Redis only"},
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
				lines := strings.Split(strings.TrimSpace(errs), "\n")
				assert.Len(t, slices.DeleteFunc(lines, func(l string) bool { return strings.Contains(l, "waiting for the lock") }), 1, errs)
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

func TestRunKeepsTheLockForItsMinHold(t *testing.T) {
	t.Parallel()
	server, key := shared.Server(t).URL(), t.Name()
	stdoutOf(t, server, runArgs(key, []string{"-min-hold", "1h"}, "exit", "0")...)
	info, err := client(t, server).Inspect(t.Context(), key)
	require.NoError(t, err)
	assert.Zero(t, info.Held)
	assert.Greater(t, info.FreeIn, time.Minute)
	for _, flag := range []string{"-n", "-w=2s"} {
		_, errs, code := result(t, server, runArgs(key, []string{flag}, "exit", "0")...)
		assert.Equal(t, exitNotAcquired, code)
		assert.Regexp(t, `^(leasewheel: waiting .*\n)?leasewheel: not acquired: "`+key+`" is released, and kept by its -min-hold until 20\d\d-\d\d-\d\d [0-9:]{8} \(for (59m5\d(\.\d)?|1h0m0)s\)\n$`, errs)
	}
	stdoutOf(t, server, "force-release", "-yes", key) // for -count
}

func TestRunAsksTheCommandToYield(t *testing.T) {
	t.Parallel()
	server := shared.Server(t).URL()
	c := client(t, server)
	for name, l := range map[string]lock.Locker{"mutex": c.Mutex(t.Name() + "/mutex"), "read": c.RWMutex(t.Name() + "/read")} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			flags := []string{"-yield", "USR1"}
			if name == "read" {
				flags = append(flags, "-read")
			}
			p := start(t, server, runArgs(t.Name(), flags, "signals")...)
			p.number(t, "pid")
			got := make(chan error, 1)
			go func() {
				held, err := l.Lock(context.Background())
				if err == nil {
					err = held.Unlock(context.Background())
				}
				got <- err
			}()
			p.prints(t, "signals got user defined signal 1")
			p.signal(t, 15)
			assert.Equal(t, 7, p.code(t))
			require.NoError(t, <-got)
			assert.Equal(t, 1, strings.Count(p.out.String(), "user defined signal 1"), "once")
		})
	}
}

func TestATakenLockNamesItsHolder(t *testing.T) {
	t.Parallel()
	server := shared.Server(t).URL()
	c := client(t, server)
	const holder = `held by client [0-9a-f]{16} "why" for [0-9.]+m?s`
	for _, test := range []struct {
		name   string
		lock   lock.Locker
		flags  []string
		holder string
	}{
		{"mutex", c.With(lock.Terms{Metadata: "why"}).Mutex(t.Name() + "/mutex"), nil, holder},
		{"semaphore", c.With(lock.Terms{Metadata: "why"}).Semaphore(t.Name()+"/semaphore", 2), []string{"-permits", "2"}, holder + ", and by 1 more"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			held := hold(t, test.lock)
			if test.name == "semaphore" {
				hold(t, test.lock)
			}
			_, errs, code := result(t, server, runArgs(t.Name(), append(test.flags, "-n"), "exit", "0")...)
			assert.Equal(t, exitNotAcquired, code)
			assert.Regexp(t, holder+".*\n$", errs)

			p := start(t, server, runArgs(t.Name(), test.flags, "exit", "3")...)
			quiet := start(t, server, runArgs(t.Name(), append(test.flags, "-q"), "exit", "4")...)
			deaf := newProgram(server, runArgs(t.Name(), test.flags, "exit", "5")...)
			deaf.cmd.Stderr = fullPipe(t)
			deaf.start(t)
			eventually(t, func() bool { return strings.Contains(p.err.String(), "\n") }, p.err.String)
			assert.Regexp(t, "^leasewheel: waiting for the lock "+t.Name()+": "+test.holder+"\n$", p.err.String())
			awaitWaiting(t, c, t.Name(), 3)
			require.NoError(t, held.Unlock(t.Context()))
			assert.Equal(t, 3, p.code(t))
			assert.Equal(t, 4, quiet.code(t))
			assert.Empty(t, quiet.err.String())
			assert.Equal(t, 5, deaf.code(t), "the message holds up nothing")
		})
	}
	elected := hold(t, c.With(lock.Terms{Metadata: "why"}).Mutex(t.Name()+"/elect"))
	p := start(t, server, electArgs(t.Name()+"/elect", nil, "exit", "6")...)
	eventually(t, func() bool { return strings.Contains(p.err.String(), "held by client") }, p.err.String)
	require.NoError(t, elected.Unlock(t.Context()))
	assert.Equal(t, 6, p.code(t))
}

// TestABadURLIsExplainedWithoutItsPassword puts each character into a password without an escape.
func TestABadURLIsExplainedWithoutItsPassword(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, text := range []string{
		"redis://:12#34@db:6379",
		"redis://:qvxz#kwjp@db:6379",
		"redis://u:qvxz%kwjp@db:6379",
		"redis://:12/34@db:6379",
		"u:qvxz/kwjp@db:6379",
		"redis://:qvxz/kwjp?jj@db:6379",
		"redis://:12?34@db:6379",
		"redis://:qvxz?kwjp@db:6379/0",
		"redis://:qvxz kwjp@db:6379",
		"redis://:qvxz\x00kwjp@db:6379",
		"redis://u:qvxz@db?pool_sise=1",
		"redis://u:qvxz@db?pool_size=kwjp",
		"redis://u:qvxz@db?addr=h:1&foo=1",
		"redis://u:qvxz@db?addr=kwjp",
		"redis://u:qvxz@db?master_name=a&x=1",
		"redis://u:qvxz@db/kwjp",
		"redis://u:qvxz@db/0/1",
		"redis://u:qvxz@db:kwjp",
		"redis://u:qvxz@d b",
		"unix://u:qvxz@",
	} {
		_, err := (&connection{url: text}).open(ended)
		require.ErrorAs(t, err, new(usageError), text)
		assert.Contains(t, err.Error(), errForm.text, text)
		for _, part := range []string{"qvxz", "kwjp", "12", "34", "jj"} {
			assert.NotContains(t, err.Error(), part, text)
		}
	}
	for _, text := range []string{"db", " db:6379\n", "redis://u:p%23@db?client_name=a@b", "redis://u:p@@db/0", "unix://u:p@/a@b", "/run/a@b.sock"} {
		_, err := (&connection{url: text}).open(ended)
		require.ErrorIs(t, err, context.Canceled, text)
	}
}
