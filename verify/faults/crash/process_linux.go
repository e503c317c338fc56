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
	ended  bool // wait was called
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
	p.input, err = p.cmd.StdinPipe()
	require.NoError(t, err)
	output, err := p.cmd.StdoutPipe()
	require.NoError(t, err)
	p.output = bufio.NewReader(output)
	require.NoError(t, p.cmd.Start())
	t.Cleanup(p.kill)
	return p
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
	_ = p.wait() // the error says that it was killed
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
