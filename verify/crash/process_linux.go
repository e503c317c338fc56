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

// patience is how long a busy machine may take for what takes milliseconds.
const patience = 30 * time.Second

// process is a client that runs apart, to be ended.
type process struct {
	cmd    *exec.Cmd
	input  io.Closer
	output *bufio.Reader
	errors strings.Builder
	ended  bool // and waited for
}

// start runs the test binary with an order. It ends with the test, or with this
// process, however that ends.
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

// hear reads the next report.
func (p *process) hear(t testing.TB, report any) {
	t.Helper()
	watch := time.AfterFunc(patience, func() { _ = p.cmd.Process.Kill() })
	defer watch.Stop()
	line, err := p.output.ReadBytes('\n')
	require.NoError(t, err, "a process says nothing within %v: %s", patience, &p.errors)
	require.NoError(t, json.Unmarshal(line, report))
}

// kill ends it at once, as kill -9 does, and waits until it is gone.
func (p *process) kill() {
	if p.ended {
		return
	}
	_ = p.cmd.Process.Kill()
	_ = p.wait() // killed, which is an error
}

// wait waits for its end, and returns how it ended.
func (p *process) wait() error {
	p.ended = true
	err := p.cmd.Wait()
	_ = p.input.Close()
	return err
}

// stop makes it stand still. It returns when it does.
func (p *process) stop(t testing.TB) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGSTOP))
	require.Eventually(t, func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.cmd.Process.Pid))
		return err == nil && strings.Contains(string(stat), ") T ")
	}, patience, time.Millisecond)
}

// resume lets it go on.
func (p *process) resume(t testing.TB) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGCONT))
}

// terminate asks it to end.
func (p *process) terminate(t testing.TB) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
}
