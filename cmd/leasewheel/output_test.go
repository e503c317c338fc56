//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package main

import (
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testredis"
)

// fullPipe returns the end of a pipe to which a write blocks until the end of the test.
func fullPipe(t *testing.T) *os.File {
	t.Helper()
	var fds [2]int
	require.NoError(t, syscall.Pipe(fds[:]))
	r, w := os.NewFile(uintptr(fds[0]), "reader"), os.NewFile(uintptr(fds[1]), "writer")
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	require.NoError(t, syscall.SetNonblock(fds[1], true))
	for size := 4096; size > 0; {
		if _, err := syscall.Write(fds[1], make([]byte, size)); err != nil {
			size /= 2
		}
	}
	require.NoError(t, syscall.SetNonblock(fds[1], false))
	return w
}

// TestABlockedStderrDoesNotProtectTheCommand checks that the command is killed although nobody reads what leasewheel and its guard
// print.
func TestABlockedStderrDoesNotProtectTheCommand(t *testing.T) {
	t.Parallel()
	server := shared.Server(t).URL()
	for _, name := range []string{"run", "elect"} {
		for _, end := range []string{"taken away", "killed", "stopped"} {
			t.Run(name+" "+end, func(t *testing.T) {
				t.Parallel()
				key := t.Name()
				p := newProgram(server, append([]string{name}, runArgs(key, losing("-v"), "stubborn")[1:]...)...)
				p.cmd.Stderr = fullPipe(t)
				p.start(t)
				pid := p.number(t, "pid")
				switch end {
				case "taken away":
					stdoutOf(t, server, "force-release", "-yes", key)
				case "killed":
					p.signal(t, syscall.SIGKILL)
				case "stopped":
					p.signal(t, syscall.SIGSTOP)
				}
				awaitDead(t, pid)
				if end == "taken away" && name == "run" {
					assert.Equal(t, exitLost, p.code(t), "it does not wait for stderr")
				}
			})
		}
	}
}

func TestAHandleThatNobodyGetsIsReleased(t *testing.T) {
	t.Parallel()
	server := shared.Server(t).URL()
	for _, test := range []struct {
		name string
		out  func(t *testing.T, p *program)
	}{
		{"a pipe without a reader", func(t *testing.T, p *program) {
			r, w, err := os.Pipe()
			require.NoError(t, err)
			require.NoError(t, r.Close())
			t.Cleanup(func() { _ = w.Close() })
			p.cmd.Stdout = w
		}},
		{"a closed stdout", func(_ *testing.T, p *program) {
			p.cmd.Args = append([]string{"sh", "-c", `exec "$0" "$@" >&-`, os.Args[0]}, p.cmd.Args[1:]...)
			p.cmd.Path = "/bin/sh"
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			p := newProgram(server, "acquire", "-k", t.Name())
			test.out(t, p)
			p.start(t)
			assert.Equal(t, exitFailed, p.code(t))
			assert.Contains(t, p.err.String(), "the lock is released again")
			assert.True(t, free(t, client(t, server), t.Name()))
		})
	}
}

func TestAnOutputThatFailsIsAFailure(t *testing.T) {
	t.Parallel()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip("no /dev/full")
	}
	t.Cleanup(func() { _ = full.Close() })
	server := shared.Server(t).URL()
	for _, args := range []string{"ls", "ls -json", "inspect x", "deadlocks", "check", "help", "help run", "run -help"} {
		p := newProgram(server, strings.Fields(args)...)
		p.cmd.Stdout = full
		p.start(t)
		assert.Equal(t, exitFailed, p.code(t), args)
		assert.Contains(t, p.err.String(), "no space left on device")
	}
}

// TestAServerThatHangsDelaysNoAnswer checks the flags that bound a wait, and signals, while the server accepts connections and does
// not answer.
func TestAServerThatHangsDelaysNoAnswer(t *testing.T) {
	t.Parallel()
	server := testredis.Start(t)
	require.NoError(t, server.Stop())
	t.Cleanup(func() { _ = server.Cont() })
	for _, flags := range []string{"-n", "-w 1s", "-w 0s"} {
		t.Run(flags, func(t *testing.T) {
			t.Parallel()
			_, stderr, code := result(t, server.URL(), append([]string{"acquire", "-k", "k"}, strings.Fields(flags)...)...)
			assert.Equal(t, exitUnavailable, code)
			assert.NotContains(t, stderr, "not acquired")
		})
	}
	t.Run("a signal", func(t *testing.T) {
		t.Parallel()
		silent, err := net.Listen("tcp", "127.0.0.1:0")
		require.NoError(t, err)
		defer silent.Close()
		p := start(t, "redis://"+silent.Addr().String(), "acquire", "-k", "k")
		conn, err := silent.Accept()
		require.NoError(t, err)
		defer conn.Close()
		p.signal(t, syscall.SIGINT)
		assert.Equal(t, -int(syscall.SIGINT), p.code(t))
	})
}

// Others may decide the text of a server's errors.
func TestAServerDoesNotControlTheTerminal(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var served sync.WaitGroup
	served.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			served.Go(func() {
				defer conn.Close()
				for b := make([]byte, 4096); ; {
					if _, err := conn.Read(b); err != nil {
						return
					}
					_, _ = conn.Write([]byte("-ERR \x1b[2J cleared\r\n"))
				}
			})
		}
	})
	defer served.Wait()
	defer listener.Close()
	for _, args := range [][]string{{"inspect", "k"}, {"ls"}} {
		stdout, stderr, code := result(t, "redis://"+listener.Addr().String(), args...)
		assert.NotZero(t, code)
		assert.NotContains(t, stdout+stderr, "\x1b", args)
		assert.Contains(t, stderr, `\x1b[2J`, args)
	}
}

func TestForeignTextDoesNotControlTheTerminal(t *testing.T) {
	t.Parallel()
	assert.Equal(t, "a\tb\n ä 日", printable("a\tb\n ä 日"))
	assert.Equal(t, `\x1b[2J\a\u009b31m\xff\x7f`, printable("\x1b[2J\a\u009b31m\xff\x7f"))
	var b strings.Builder
	require.NoError(t, printJSON(&b, map[string]string{"m": "\x1b\x7f\u009b\U000E0001ä"}))
	assert.Contains(t, b.String(), `"\u001b\u007f\u009b\udb40\udc01ä"`)
}
