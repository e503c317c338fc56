package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// shell is a shell on a terminal of its own.
type shell struct {
	tty      string // the name of the terminal
	keyboard *os.File
	screen   output
}

// startShell starts a program as the leader of a session on a new terminal. $0 and $1 of the
// script are the program under test and a key.
func startShell(t *testing.T, name string, args ...string) *shell {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	require.NoError(t, err)
	require.NoError(t, unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0))
	number, err := unix.IoctlGetUint32(fd, unix.TIOCGPTN)
	require.NoError(t, err)
	require.NoError(t, unix.SetNonblock(fd, true)) // so that Close ends a read
	s := &shell{tty: fmt.Sprintf("/dev/pts/%d", number), keyboard: os.NewFile(uintptr(fd), "terminal")}
	tty, err := os.OpenFile(s.tty, os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	cmd := exec.Command(name, args...)
	cmd.Env = append(environ(shared.Server(t).URL()), "PS1=prompt ", "TERM=dumb")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	require.NoError(t, cmd.Start())
	require.NoError(t, tty.Close())
	read := make(chan struct{})
	go func() {
		defer close(read)
		_, _ = io.Copy(&s.screen, s.keyboard) // until Close, or until all processes have closed the terminal
	}()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = s.keyboard.Close() // hangs up
		<-read
	})
	return s
}

// stopOutput does what Ctrl-S does: each write to the terminal blocks.
func (s *shell) stopOutput(t *testing.T) {
	t.Helper()
	tty, err := os.OpenFile(s.tty, os.O_RDWR|syscall.O_NOCTTY, 0)
	require.NoError(t, err)
	defer tty.Close()
	require.NoError(t, unix.IoctlSetInt(int(tty.Fd()), unix.TCXONC, unix.TCOOFF))
}

// types sends keys to the terminal.
func (s *shell) types(t *testing.T, keys string) {
	t.Helper()
	_, err := s.keyboard.WriteString(keys)
	require.NoError(t, err)
}

// shows waits until the screen has shown a text that many times. Typed keys are shown too.
func (s *shell) shows(t *testing.T, text string, times int) {
	t.Helper()
	eventually(t, func() bool { return strings.Count(s.screen.String(), text) >= times },
		func() string { return fmt.Sprintf("%q is not on the screen:\n%s", text, &s.screen) })
}

// pid returns the number after "pid=" on the screen.
func (s *shell) pid(t *testing.T) int {
	t.Helper()
	s.shows(t, "pid=", 1)
	var pid int
	eventually(t, func() bool {
		_, rest, _ := strings.Cut(s.screen.String(), "pid=")
		n, err := fmt.Sscanf(rest, "%d\r\n", &pid)
		return n == 1 && err == nil
	}, s.screen.String)
	return pid
}

func TestTheCommandReadsFromTheTerminal(t *testing.T) {
	t.Parallel()
	for _, pipe := range []string{"", " | cat"} { // in a pipeline it gets the terminal when it reads
		t.Run(pipe, func(t *testing.T) {
			t.Parallel()
			script := `"$0" run -k "$1" -- sh -c 'echo asks; read x; echo got:$x'` + pipe + `; read y; echo then:$y`
			s := startShell(t, "sh", "-c", script, os.Args[0], t.Name())
			s.shows(t, "asks", 1)
			s.types(t, "one\n")
			s.shows(t, "got:one", 1)
			s.types(t, "two\n")
			s.shows(t, "then:two", 1) // the shell has the terminal again
		})
	}
}

// TestAStoppedTerminalDoesNotProtectTheCommand loses the lock after Ctrl-S, while leasewheel logs to the terminal.
func TestAStoppedTerminalDoesNotProtectTheCommand(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"run", "elect"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			key := t.Name()
			s := startShell(t, os.Args[0], append([]string{name}, runArgs(key, losing("-v"), "stubborn")[1:]...)...)
			pid := s.pid(t)
			s.stopOutput(t)
			stdoutOf(t, shared.Server(t).URL(), "force-release", "-yes", key)
			awaitDead(t, pid)
		})
	}
}

func TestCtrlCReachesTheCommandOnce(t *testing.T) {
	t.Parallel()
	for _, pipe := range []string{"", " | cat"} {
		t.Run(pipe, func(t *testing.T) {
			t.Parallel()
			script := `trap "" INT; (trap - INT; exec "$0" run -k "$1" -- "$0" ` + childName + ` signals)` + pipe + `; echo end`
			if pipe != "" {
				script = `trap : INT; "$0" run -k "$1" -- "$0" ` + childName + ` signals | (trap "" INT; cat); echo end`
			}
			s := startShell(t, "sh", "-c", script, os.Args[0], t.Name())
			pid := s.pid(t)
			s.types(t, "\x03")
			s.shows(t, "got interrupt", 1)
			require.NoError(t, syscall.Kill(pid, syscall.SIGTERM))
			s.shows(t, "end", 1)
			assert.Equal(t, 1, strings.Count(s.screen.String(), "got interrupt"), s.screen.String())
		})
	}
}

func TestCtrlZSuspendsTheJob(t *testing.T) {
	t.Parallel()
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	s := startShell(t, bash, "--norc", "--noediting", "-i")
	s.shows(t, "prompt", 1)
	s.types(t, fmt.Sprintf("%s run -k %s -- %s %s signals\n", os.Args[0], t.Name(), os.Args[0], childName))
	pid := s.pid(t)
	s.types(t, "\x1a")
	s.shows(t, "Stopped", 1)
	awaitState(t, pid, "T")
	s.types(t, "fg\n")
	s.shows(t, "got continued", 1)
	s.types(t, "\x03") // the command has the terminal again
	s.shows(t, "got interrupt", 1)
	require.NoError(t, syscall.Kill(pid, syscall.SIGTERM))
	s.shows(t, "prompt", 3)
	s.types(t, "echo status=$?\n")
	s.shows(t, "status=7", 1)
}
