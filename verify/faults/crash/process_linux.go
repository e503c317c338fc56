// Child processes: their start, their reports and the signals to them.

package crash

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// timeout bounds on a busy machine what usually takes milliseconds.
const timeout = 30 * time.Second

// process is a child process.
type process struct {
	cmd    *exec.Cmd
	input  io.Closer
	output *bufio.Reader
	errors strings.Builder
	unread *os.File // where a mute process writes its errors
	ended  bool     // wait was called
}

// start runs the test binary with an order. The child ends with the test or with this
// process.
func start(t testing.TB, o order, env ...string) *process {
	t.Helper()
	text, err := json.Marshal(o)
	require.NoError(t, err)
	p := &process{cmd: exec.Command(os.Args[0])}
	p.cmd.Env = append(append(os.Environ(), orderVariable+"="+string(text)), env...)
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	p.cmd.Stderr = &p.errors
	if o.Mute {
		p.cmd.Stderr = p.fullPipe(t)
	}
	p.input, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	output, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.output = bufio.NewReader(output)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(p.kill)
	return p
}

// fullPipe returns the end of a pipe to which a write blocks until what is in it is read.
func (p *process) fullPipe(t testing.TB) *os.File {
	t.Helper()
	r, w, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = r.Close(), w.Close() })
	p.unread = r
	raw, err := w.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Write(func(fd uintptr) bool { // the file does not block, but that of the child does
		for size := 4096; size > 0; {
			if _, err := syscall.Write(int(fd), make([]byte, size)); err != nil {
				size /= 2
			}
		}
		return true
	}))
	return w
}

// readErrors reads what a mute process has written, until a text of it. It lets the process write.
func (p *process) readErrors(t testing.TB, text string) {
	t.Helper()
	require.NoError(t, p.unread.SetReadDeadline(time.Now().Add(timeout)))
	for all := ""; !strings.Contains(all, text); {
		part := make([]byte, 1<<16)
		n, err := p.unread.Read(part)
		require.NoError(t, err, "no %q in %s", text, all)
		all += strings.Trim(string(part[:n]), "\x00")
	}
}

// receive reads the next report.
func (p *process) receive(t testing.TB, report any) {
	t.Helper()
	watch := time.AfterFunc(timeout, func() { _ = p.cmd.Process.Kill() })
	defer watch.Stop()
	line, err := p.output.ReadBytes('\n')
	require.NoError(t, err, "no report within %v: %s", timeout, &p.errors)
	require.NoError(t, json.Unmarshal(line, report))
}

// kill sends SIGKILL and waits for the end of the process.
func (p *process) kill() {
	if p.ended {
		return
	}
	_ = p.cmd.Process.Kill()
	_ = p.wait() // the error means that it was killed
}

// wait waits for the end of the process and returns its status.
func (p *process) wait() error {
	p.ended = true
	err := p.cmd.Wait()
	_ = p.input.Close()
	return err
}

// stop sends SIGSTOP and returns when the process is stopped.
func (p *process) stop(t testing.TB) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGSTOP))
	require.Eventually(t, func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
		return err == nil && strings.Contains(string(stat), ") T ")
	}, timeout, time.Millisecond)
}

// resume sends SIGCONT.
func (p *process) resume(t testing.TB) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGCONT))
}

// terminate sends SIGTERM.
func (p *process) terminate(t testing.TB) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
}
