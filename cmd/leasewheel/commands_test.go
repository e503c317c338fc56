//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package main

import (
	"encoding/json"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
)

// electArgs returns the arguments of elect with a command of the tests.
func electArgs(key string, flags []string, args ...string) []string {
	all := runArgs(key, flags, args...)
	all[0] = "elect"
	return all
}

func TestElectRunsTheCommandInEachTerm(t *testing.T) {
	t.Parallel()
	server, key := shared.Server(t).URL(), t.Name()
	c := client(t, server)
	p := start(t, server, electArgs(key, losing("-id", "the first"), "signals")...)
	p.number(t, "pid")
	leader, err := c.Election(key, "").Leader(t.Context())
	require.NoError(t, err)
	assert.Equal(t, "the first", leader.Name)

	stdoutOf(t, server, "force-release", "-yes", key)
	p.prints(t, "got terminated")
	eventually(t, func() bool { return strings.Count(p.out.String(), "pid=") == 2 }, p.out.String)
	again, err := c.Election(key, "").Leader(t.Context())
	require.NoError(t, err)
	assert.Greater(t, again.Term, leader.Term)
	assert.Contains(t, p.err.String(), "lost the lock")

	other := start(t, server, electArgs(key, nil, "signals")...)
	awaitWaiting(t, c, key, 1)
	p.signal(t, syscall.SIGTERM)
	assert.Equal(t, 7, p.code(t), "the status of a command that ends by itself")
	other.number(t, "pid")
	other.signal(t, syscall.SIGTERM)
	assert.Equal(t, 7, other.code(t))
}

func TestElectWaitsForAServer(t *testing.T) {
	t.Parallel()
	server := testredis.Start(t)
	server.Kill()
	p := start(t, server.URL(), electArgs(t.Name(), nil, "exit", "5")...)
	eventually(t, func() bool { return strings.Contains(p.err.String(), "trying again") }, p.err.String)
	require.NoError(t, server.Restart())
	assert.Equal(t, 5, p.code(t))
}

func TestElectRefusesWhatRunRefuses(t *testing.T) {
	t.Parallel()
	server := shared.Server(t).URL()
	for args, code := range map[string]int{
		"elect -- true":                   exitUsage,
		"elect -k x":                      exitUsage,
		"elect -k x -grace 1h -- true":    exitUsage,
		"elect -k x -- no-such-program":   exitNotFound,
		"elect -k } -- true":              exitUsage,
		"elect -url ftp://x -k x -- true": exitUsage,
		"acquire":                         exitUsage,
		"acquire -k x extra":              exitUsage,
		"acquire -k x -ttl 1ms":           exitUsage,
		"acquire -k x -url localhost:1":   exitUnavailable,
		"inspect":                         exitUsage,
		"inspect }":                       exitUsage,
		"ls a b":                          exitUsage,
		"ls -url localhost:1":             exitUnavailable,
		"force-release x":                 exitUsage, // without -yes
		"force-release -yes no-such-lock": exitLost,
		"deadlocks a b":                   exitUsage,
		"deadlocks -url localhost:1":      exitUnavailable,
		"help no-such-command":            exitUsage,
		"release":                         exitUsage, // no handle
		"check -url localhost:1 extra":    exitUsage,
		"help run":                        0,
		"run -h":                          0,
	} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			out, errs, got := result(t, server, strings.Fields(args)...)
			assert.Equal(t, code, got, errs)
			if code == 0 {
				assert.Contains(t, out, "Usage: leasewheel run")
				assert.Empty(t, errs)
				return
			}
			assert.Empty(t, out)
			assert.Equal(t, 1, strings.Count(errs, "\n"), errs)
		})
	}
}

func TestAHandleReleasesTheLock(t *testing.T) {
	t.Parallel()
	server, key := shared.Server(t).URL(), t.Name()
	c := client(t, server)
	handle := stdoutOf(t, server, "acquire", "-k", key, "-ttl", "1h")
	_, _, code := result(t, server, "acquire", "-k", key, "-n", "-E", "9")
	assert.Equal(t, 9, code, "the lock is held")
	for _, want := range []int{0, exitLost} {
		p := newProgram(server, "release")
		p.cmd.Stdin = strings.NewReader(handle)
		p.start(t)
		assert.Equal(t, want, p.code(t), p.err.String())
		assert.NotContains(t, p.err.String(), strings.TrimSpace(handle), "the handle is a secret")
		if want == exitLost {
			assert.Contains(t, p.err.String(), "leasewheel: the lock of this handle is not held any more")
		}
		assert.True(t, free(t, c, key))
	}
	p := newProgram(server, "release")
	p.cmd.Stdin = strings.NewReader("nonsense")
	p.start(t)
	assert.Equal(t, exitUsage, p.code(t))
	assert.NotContains(t, p.err.String(), "nonsense")
	assert.Contains(t, p.err.String(), "is no handle of leasewheel acquire")
}

func TestLsAndInspectShowLocks(t *testing.T) {
	t.Parallel()
	server, prefix := shared.Server(t).URL(), t.Name()+":"
	c := client(t, server)
	hold(t, c.With(lock.Terms{Metadata: "why\x1b[31m"}).Mutex(prefix+"a"))
	hold(t, c.Semaphore(prefix+"b\n", 5).WithPermits(2))
	hold(t, c.Semaphore(prefix+"b\n", 5).WithPermits(1))
	p := start(t, server, runArgs(prefix+"a", []string{"-meta", "next"}, "exit", "0")...)
	awaitWaiting(t, c, prefix+"a", 1)

	table := stdoutOf(t, server, "ls", prefix)
	assert.Equal(t, 3, strings.Count(table, "\n"), table)
	assert.Regexp(t, `a +exclusive +\S+ +1 +\d+ +"why\\x1b\[31m"`, table)
	assert.Regexp(t, `b\\n" +2 permit`, table)
	assert.NotContains(t, table, "\x1b", "what others wrote does not reach the terminal")
	assert.Equal(t, "KEY", strings.Fields(stdoutOf(t, server, "ls", prefix+"none"))[0])

	var states []lockState
	require.NoError(t, json.Unmarshal([]byte(stdoutOf(t, server, "ls", "-json", prefix)), &states))
	require.Len(t, states, 2)
	assert.Equal(t, prefix+"a", states[0].Key)
	assert.Equal(t, "why\x1b[31m", states[0].Holders[0].Metadata)
	assert.Positive(t, states[0].Holders[0].ExpiresIn)
	assert.Equal(t, 2, states[1].Held)

	shows := stdoutOf(t, server, "inspect", prefix+"a")
	assert.Contains(t, shows, "exclusive, 1 waiting, last token ")
	assert.Regexp(t, `\n  the first waiter has waited [\d.]+m?s\n  waiter  next\n`, shows)
	var state lockState
	require.NoError(t, json.Unmarshal([]byte(stdoutOf(t, server, "inspect", "-json", prefix+"a")), &state))
	assert.Equal(t, []string{"next"}, state.Queue)
	assert.Positive(t, state.Waited)
	assert.Contains(t, stdoutOf(t, server, "inspect", prefix+"b\n"), "holder  permit, 2 permits")
	assert.Contains(t, stdoutOf(t, server, "inspect", prefix+"none"), ": free, 0 waiting, last token 0\n")
	assert.Equal(t, "[]\n", stdoutOf(t, server, "ls", "-json", prefix+"none"))
	p.signal(t, syscall.SIGTERM)
	assert.Equal(t, -int(syscall.SIGTERM), p.code(t))
}

func TestCheckTellsWhatIsUnsafe(t *testing.T) {
	t.Parallel()
	server := testredis.Start(t, "--maxmemory", "100mb", "--maxmemory-policy", "allkeys-lru")
	out, errs, code := result(t, server.URL(), "check")
	assert.Equal(t, exitFound, code)
	assert.Empty(t, errs)
	assert.Contains(t, out, "eviction")
	out, _, code = result(t, server.URL(), "check", "-json")
	assert.Equal(t, exitFound, code)
	var report struct {
		Safe     bool
		Findings []struct{ Code string }
	}
	require.NoError(t, json.Unmarshal([]byte(out), &report))
	assert.False(t, report.Safe)
	assert.NotEmpty(t, report.Findings)
	require.NoError(t, server.Client(t).ConfigSet(t.Context(), "maxmemory-policy", "noeviction").Err())
	assert.Contains(t, stdoutOf(t, server.URL(), "check"), "0 unsafe")
}

func TestAServerWithAPassword(t *testing.T) {
	t.Parallel()
	server := testredis.Start(t, "--requirepass", "canary")
	url := strings.Replace(server.URL(), "redis://", "redis://:canary@", 1)
	assert.Equal(t, "ran\n", stdoutOf(t, url, "run", "-k", "x", "--", "echo", "ran"))
	wrong := strings.Replace(url, "canary", "canary2", 1)
	for _, test := range []struct{ name, url, want, advice string }{
		{"none", server.URL(), "NOAUTH", "set LEASEWHEEL_URL=redis://:PASSWORD@HOST:6379"},
		{"wrong", wrong, "WRONGPASS", "check both in LEASEWHEEL_URL=redis://USER:PASSWORD@HOST:6379"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			_, errs, code := result(t, test.url, "run", "-k", "x", "--", "echo", "ran")
			assert.Equal(t, exitUnavailable, code)
			out, _, code := result(t, test.url, "check")
			assert.Equal(t, exitFound, code)
			assert.Regexp(t, `^1 server, TTL 30s: 1 not checked, 1 unsafe, .*\n127.0.0.1:\d+: not checked\n  unsafe     login: `+test.want, out)
			for _, text := range []string{errs, out} {
				assert.Contains(t, text, test.want)
				assert.Contains(t, text, test.advice)
				assert.NotContains(t, text, "Options")
				assert.NotContains(t, text, "canary")
			}
		})
	}
}

func TestTheAdviceIsForTheCommandLine(t *testing.T) {
	t.Parallel()
	replica := testredis.Start(t, "--replicaof", "127.0.0.1", "1")
	_, errs, code := result(t, replica.URL(), "run", "-n", "-k", "x", "--", "true")
	assert.Equal(t, exitUnavailable, code)
	assert.Contains(t, errs, "use the address of its master, or set LEASEWHEEL_URL=redis://SENTINEL:26379?master_name=NAME")
	out, _, _ := result(t, replica.URL(), "check")
	assert.Contains(t, out, "Use the address of the master, or set LEASEWHEEL_URL=redis://SENTINEL:26379?master_name=NAME.")
}

// TestAnAddressOfOneNodeIsEnough checks that a cluster is recognized.
func TestAnAddressOfOneNodeIsEnough(t *testing.T) {
	t.Parallel()
	cluster := testredis.StartCluster(t, 3, false)
	url := cluster.Masters[0].URL()
	for _, key := range []string{"a", "b", "c", "d", "e"} { // on different nodes
		assert.Equal(t, key+"\n", stdoutOf(t, url, "run", "-k", key, "--", "echo", key))
		stdoutOf(t, url, "acquire", "-k", key)
	}
	assert.Equal(t, 1+5, strings.Count(stdoutOf(t, url, "ls"), "\n"))
	stdoutOf(t, url+"?addr="+cluster.Masters[1].Addr(), "run", "-k", "f", "--", "true")
}

func TestThePrefixSeparatesLocks(t *testing.T) {
	t.Parallel()
	server, key := shared.Server(t).URL(), t.Name()
	hold(t, client(t, server).Mutex(key))
	p := newProgram(server, runArgs(key, []string{"-n"}, "exit", "0")...)
	p.cmd.Env = append(p.cmd.Env, prefixEnv+"=other:")
	p.start(t)
	assert.Zero(t, p.code(t))
	stdoutOf(t, server, runArgs(key, []string{"-n", "-prefix", "third:"}, "exit", "0")...)
}

func TestAServerWithoutTLSIsNamed(t *testing.T) {
	t.Parallel()
	_, errs, code := result(t, strings.Replace(testredis.Start(t).URL(), "redis://", "rediss://", 1), "inspect", "key")
	assert.Equal(t, exitUnavailable, code)
	assert.Contains(t, errs, "does not speak TLS")
}

func TestTheUsageListsAllCommands(t *testing.T) {
	t.Parallel()
	server := shared.Server(t).URL()
	usage := stdoutOf(t, server, "help")
	for _, c := range commands {
		assert.Contains(t, usage, "  "+c.name+" ")
		assert.Contains(t, stdoutOf(t, server, "help", c.name), "Usage: leasewheel "+c.name)
	}
	_, errs, code := result(t, server)
	assert.Equal(t, exitUsage, code)
	assert.Equal(t, usage, errs)
	assert.Equal(t, usage, stdoutOf(t, server, "--help"))
	assert.Contains(t, stdoutOf(t, server, "version"), "leasewheel ")
	assert.Equal(t, stdoutOf(t, server, "version"), stdoutOf(t, server, "--version"))
}
