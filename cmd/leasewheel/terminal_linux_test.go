package main

import (
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"
)

// shell is a shell on a terminal of its own.
type shell struct {
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
	s := &shell{keyboard: os.NewFile(uintptr(fd), "terminal")}
	tty, err := os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|syscall.O_NOCTTY, 0)
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

// around are programs that run a step, $STEP, twice.
var around = map[string]string{
	"bash":       `bash -c "$STEP; $STEP"`,
	"dash":       `dash -c "$STEP; $STEP"`,
	"make":       `make -s -f Makefile`,
	"xargs":      `xargs -n 1 -a words $STEP`,
	"find":       `find words Makefile -exec $STEP {} ";"`,
	"background": `bash -c "$STEP & wait; $STEP"`,
}

// fate is what a signal does to the program around a command.
type fate struct {
	Next   bool   // the second step has begun
	Status string // as the shell shows it
}

// fateOf runs the program that is around a step in a job of an interactive shell, types the keys one after another when the step runs, and
// returns what becomes of both.
func fateOf(t *testing.T, name, step string, keys ...string) fate {
	t.Helper()
	dir := t.TempDir()
	for file, text := range map[string]string{
		"step":     "#!/bin/sh\necho begun $((6*7)) pid=$$\nexec sleep 30\n",
		"words":    "1 2",
		"Makefile": "all:\n\t$(STEP)\n\t$(STEP)\n",
	} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o700))
	}
	s := startShell(t, "bash", "--norc", "--noediting", "-i")
	s.shows(t, "prompt", 1)
	s.types(t, "cd "+dir+"; export STEP='"+step+" ./step'\n")
	s.shows(t, "prompt", 2)
	s.types(t, around[name]+"\n")
	pid := s.pid(t)
	prompts := 3
	for _, key := range keys {
		s.types(t, key)
		switch key {
		case "\x1a":
			s.shows(t, "Stopped", 1)
			s.shows(t, "prompt", prompts)
			awaitState(t, pid, "T")
			prompts++
		case "fg\n":
			awaitState(t, pid, "S")
		}
	}
	if strings.HasPrefix(step, "setsid") { // the terminal does not reach the command
		s.shows(t, "^C", 1)
		require.True(t, alive(pid))
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	var f fate
	eventually(t, func() bool {
		f.Next = strings.Count(s.screen.String(), "begun 42") > 1
		return f.Next || strings.Count(s.screen.String(), "prompt") >= prompts
	}, s.screen.String)
	if !f.Next {
		s.types(t, "echo status=$?.\n")
		eventually(t, func() bool {
			found := regexp.MustCompile(`status=(\d+)\.`).FindStringSubmatch(s.screen.String())
			if found != nil {
				f.Status = found[1]
			}
			return found != nil
		}, s.screen.String)
	}
	if name == "background" { // the shell makes it ignore SIGINT
		assert.True(t, alive(pid), step)
		require.NoError(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	awaitDead(t, pid)
	if name == "make" && f.Status == "2" { // depends on what make notices first
		f.Status = "130"
	}
	return f
}

// TestAKeyEndsWhatIsAroundTheCommand compares leasewheel with the bare command, and with the programs that people know: what is around the
// command ends in the same way.
func TestAKeyEndsWhatIsAroundTheCommand(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"bash", "dash", "make", "flock", "timeout", "setsid", "xargs", "find"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skip(err)
		}
	}
	keys := map[string][]string{"Ctrl-C": {"\x03"}, `Ctrl-\`: {"\x1c"}, "Ctrl-Z, fg, Ctrl-C": {"\x1a", "fg\n", "\x03"}}
	for _, test := range []struct {
		around, keys string
		like         bool // flock and timeout are compared too
	}{
		{"bash", "Ctrl-C", true},
		{"dash", "Ctrl-C", true},
		{"make", "Ctrl-C", false},
		{"xargs", "Ctrl-C", false},
		{"find", "Ctrl-C", false},
		{"background", "Ctrl-C", true},
		{"bash", `Ctrl-\`, false},
		{"dash", `Ctrl-\`, true},
		{"bash", "Ctrl-Z, fg, Ctrl-C", true},
		{"make", "Ctrl-Z, fg, Ctrl-C", false},
		{"xargs", "Ctrl-Z, fg, Ctrl-C", false},
	} {
		t.Run(test.around+" "+test.keys, func(t *testing.T) {
			t.Parallel()
			lw := func(command string) string {
				return os.Args[0] + " " + command + " -k " + url.QueryEscape(t.Name()+command) + " --"
			}
			want := fateOf(t, test.around, "", keys[test.keys]...)
			steps := []string{lw("run"), lw("elect")}
			if test.like {
				steps = append(steps, "flock lock")
			}
			if test.like && test.around == "dash" { // bash goes on after 2 of 12 Ctrl-C; in the background timeout passes on what is ignored
				steps = append(steps, "timeout --foreground 60")
			}
			for _, step := range steps {
				assert.Equal(t, want, fateOf(t, test.around, step, keys[test.keys]...), step)
			}
		})
	}
	assert.Equal(t, fate{Next: true}, fateOf(t, "bash", "setsid -w", "\x03"), "setsid differs")
}

// TestAKeyEndsWhatWaits is about Ctrl-C while leasewheel waits for a lock.
func TestAKeyEndsWhatWaits(t *testing.T) {
	t.Parallel()
	c := client(t, shared.Server(t).URL())
	for _, command := range []string{"run -k KEY -- true", "elect -k KEY -- true", "acquire -k KEY"} {
		for _, sh := range []string{"bash", "dash"} {
			t.Run(sh+" "+command, func(t *testing.T) {
				t.Parallel()
				key := url.QueryEscape(t.Name())
				hold(t, c.Mutex(key))
				s := startShell(t, "bash", "--norc", "--noediting", "-i")
				s.shows(t, "prompt", 1)
				s.types(t, fmt.Sprintf("%s -c '%s %s; echo next=$((6*7))'\n", sh, os.Args[0], strings.ReplaceAll(command, "KEY", key)))
				awaitWaiting(t, c, key, 1)
				s.types(t, "\x03")
				s.shows(t, "prompt", 2)
				s.types(t, "echo status=$?.\n")
				s.shows(t, "status=130.", 1)
				assert.NotContains(t, s.screen.String(), "next=42")
			})
		}
	}
}
