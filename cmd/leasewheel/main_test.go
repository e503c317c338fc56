//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/redisstore"
)

// programEnv makes the test binary behave like the program, or like one of the commands that it
// runs in tests if the first argument is childName.
const (
	programEnv = "LEASEWHEEL_TEST_PROGRAM"
	childName  = "test-child"
)

const (
	bound = 25 * time.Second // of everything that a test polls
	pause = 5 * time.Millisecond

	// The lease of tests that lose it. From the KILL to the end of the lease it is 0.7 s: on a
	// busy machine it takes some tenths of a second until a signal has ended a process.
	lossTTL   = 12 * time.Second
	lossGrace = time.Second
)

var shared testredis.Shared

func TestMain(m *testing.M) {
	if os.Getenv(programEnv) != "" {
		if len(os.Args) > 1 && os.Args[1] == childName {
			child(os.Args[2:])
		}
		end(status(os.Args[1:], standardStreams()))
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGHUP) // nohup ignores it, and the programs that are tested would, too
	flag.Parse()
	if err := flag.Set("test.parallel", "24"); err != nil { // most of the tests wait for a lease to end
		panic(err)
	}
	goleak.VerifyTestMain(shared.Around(m))
}

// program is a running leasewheel.
type program struct {
	cmd      *exec.Cmd
	out, err output
	done     chan struct{} // closed after its end
}

// output is a bytes.Buffer for concurrent use.
type output struct {
	mu     sync.Mutex // guards buffer
	buffer bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buffer.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buffer.String()
}

// environ returns the environment of a program that uses the server at the URL.
func environ(url string) []string {
	return append(os.Environ(), programEnv+"=1", urlEnv+"="+url)
}

// newProgram returns a program that is not started.
func newProgram(url string, args ...string) *program {
	p := &program{cmd: exec.Command(os.Args[0], args...), done: make(chan struct{})}
	p.cmd.Env = environ(url)
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.err
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // in an orphaned group the kernel would end a pause
	p.cmd.WaitDelay = bound
	return p
}

// start starts a program. It is killed at the end of the test.
func start(t *testing.T, url string, args ...string) *program {
	t.Helper()
	p := newProgram(url, args...)
	p.start(t)
	return p
}

func (p *program) start(t *testing.T) {
	t.Helper()
	require.NoError(t, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
	})
}

// signal sends a signal to the program alone.
func (p *program) signal(t *testing.T, sig syscall.Signal) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(sig))
}

// code waits for the end of the program and returns its exit status, or the number of the signal that it has died of, negated.
func (p *program) code(t *testing.T) int {
	t.Helper()
	select {
	case <-p.done:
	case <-time.After(bound):
		require.Fail(t, "the program does not end", "stdout: %s\nstderr: %s", &p.out, &p.err)
	}
	return statusOfState(p.cmd.ProcessState.Sys().(syscall.WaitStatus))
}

// prints waits until the program, or its command, has printed the text to stdout.
func (p *program) prints(t *testing.T, text string) {
	t.Helper()
	eventually(t, func() bool { return strings.Contains(p.out.String(), text) },
		func() string { return fmt.Sprintf("no %q in stdout: %s\nstderr: %s", text, &p.out, &p.err) })
}

// number waits until the program has printed "name=number", and returns the number.
func (p *program) number(t *testing.T, name string) int {
	t.Helper()
	var n int
	eventually(t, func() bool {
		_, rest, _ := strings.Cut(p.out.String(), name+"=")
		line, _, complete := strings.Cut(rest, "\n")
		var err error
		n, err = strconv.Atoi(line)
		return complete && err == nil
	}, func() string { return fmt.Sprintf("no %s in stdout: %s\nstderr: %s", name, &p.out, &p.err) })
	return n
}

// result runs the program to its end.
func result(t *testing.T, url string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	p := start(t, url, args...)
	code = p.code(t)
	return p.out.String(), p.err.String(), code
}

// eventually polls until the condition holds.
func eventually(t *testing.T, condition func() bool, message func() string) {
	t.Helper()
	for deadline := time.Now().Add(bound); !condition(); time.Sleep(pause) {
		if time.Now().After(deadline) {
			require.Fail(t, message())
		}
	}
}

// client returns a client of locks on the server.
func client(t *testing.T, url string) *lock.Client {
	t.Helper()
	opts, err := redis.ParseURL(url)
	require.NoError(t, err)
	rdb := redis.NewClient(opts)
	store, err := redisstore.New(rdb, nil)
	require.NoError(t, err)
	c, err := lock.New(store, nil)
	require.NoError(t, err)
	t.Cleanup(func() {
		_ = c.Close(context.Background())
		_ = rdb.Close()
	})
	return c
}

// awaitWaiting waits until the lock has that many waiters.
func awaitWaiting(t *testing.T, c *lock.Client, key string, waiting int) {
	t.Helper()
	var info lock.Info
	eventually(t, func() bool {
		var err error
		info, err = c.Inspect(t.Context(), key)
		return err == nil && info.Waiting == waiting
	}, func() string { return fmt.Sprintf("%s: %+v", key, info) })
}

// free reports whether nobody holds the lock.
func free(t *testing.T, c *lock.Client, key string) bool {
	t.Helper()
	info, err := c.Inspect(t.Context(), key)
	require.NoError(t, err)
	return info.Held == 0
}

// self returns the command line of a command of the tests.
func self(args ...string) []string { return append([]string{os.Args[0], childName}, args...) }

// runArgs returns the arguments of run with a command of the tests.
func runArgs(key string, flags []string, args ...string) []string {
	return append(append([]string{"run", "-k", key}, append(flags, "--")...), self(args...)...)
}

// losing are the flags of a lease that is lost soon.
func losing(more ...string) []string {
	return append([]string{"-ttl", lossTTL.String(), "-grace", lossGrace.String()}, more...)
}

// alive reports whether a process exists and is no zombie, as far as the system tells.
func alive(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	if runtime.GOOS != "linux" {
		return true
	}
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	return err == nil && !strings.Contains(string(stat), ") Z ") && !strings.Contains(string(stat), ") X ")
}

// awaitDead waits for the end of a process that is no child of the test.
func awaitDead(t *testing.T, pid int) {
	t.Helper()
	eventually(t, func() bool { return !alive(pid) }, func() string { return fmt.Sprintf("process %d is alive", pid) })
}

// stdoutOf asserts that the program succeeds and prints nothing to stderr.
func stdoutOf(t *testing.T, url string, args ...string) string {
	t.Helper()
	out, errs, code := result(t, url, args...)
	assert.Empty(t, errs)
	assert.Zero(t, code, "%v", args)
	return out
}

// hold holds a lock until the end of the test.
func hold(t *testing.T, l lock.Locker) *lock.Held {
	t.Helper()
	held, err := l.Lock(t.Context())
	require.NoError(t, err)
	t.Cleanup(func() { _ = held.Unlock(context.Background()) })
	return held
}
