// Package exampletest runs the programs of the examples in their tests: as processes, or
// within the test with an Output.
package exampletest

import (
	"bytes"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

// programEnv makes the test binary behave like the program.
const programEnv = "LEASEWHEEL_EXAMPLE"

// timeout bounds the wait for a line or for the end of a process.
const timeout = time.Minute

// Main runs the tests of a program, or the program if Start has started this process.
func Main(m *testing.M, program func()) {
	if os.Getenv(programEnv) != "" {
		program()
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// Output collects the output of a program. Its methods are safe for concurrent use.
type Output struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

// Write implements io.Writer.
func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

// String returns the output so far.
func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// Process is a program that runs as a process until the end of the test.
type Process struct {
	t     *testing.T
	cmd   *exec.Cmd
	out   Output
	wrote chan struct{} // has an element after a Write
}

// Start starts the program with the given arguments. It skips the test on systems without
// signals.
func Start(t *testing.T, args ...string) *Process {
	t.Helper()
	if runtime.GOOS == "windows" {
		t.Skip("this system cannot send SIGTERM")
	}
	p := &Process{t: t, cmd: exec.CommandContext(t.Context(), os.Args[0], args...), wrote: make(chan struct{}, 1)}
	p.cmd.Env = append(os.Environ(), programEnv+"=1")
	p.cmd.Stdout, p.cmd.Stderr = p, p
	require.NoError(t, p.cmd.Start())
	t.Cleanup(func() {
		if p.cmd.ProcessState == nil {
			_ = p.cmd.Process.Kill()
			_ = p.cmd.Wait()
		}
	})
	return p
}

// Write implements io.Writer for the output of the process.
func (p *Process) Write(b []byte) (int, error) {
	n, err := p.out.Write(b)
	select {
	case p.wrote <- struct{}{}:
	default:
	}
	return n, err
}

// WaitFor waits for a line of the output that contains text, and returns it.
func (p *Process) WaitFor(text string) string {
	p.t.Helper()
	expired := time.After(timeout)
	for {
		for line := range strings.Lines(p.out.String()) {
			if strings.Contains(line, text) && strings.HasSuffix(line, "\n") {
				return strings.TrimSuffix(line, "\n")
			}
		}
		select {
		case <-p.wrote:
		case <-expired:
			require.FailNow(p.t, "no line of the process contains "+text, p.out.String())
		}
	}
}

// Terminate sends SIGTERM to the process. It returns the output of the whole process, which
// must end without an error.
func (p *Process) Terminate() string {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Signal(syscall.SIGTERM))
	return p.Wait()
}

// Kill sends SIGKILL to the process, which must still run, and returns its output.
func (p *Process) Kill() string {
	p.t.Helper()
	require.NoError(p.t, p.cmd.Process.Kill())
	_ = p.cmd.Wait()
	assert.Equal(p.t, -1, p.cmd.ProcessState.ExitCode(), "the process has ended before: %s", p.out.String())
	return p.out.String()
}

// Wait waits until the process has ended without an error, and returns its output.
func (p *Process) Wait() string {
	p.t.Helper()
	expired := time.AfterFunc(timeout, func() { _ = p.cmd.Process.Kill() })
	defer expired.Stop()
	assert.NoError(p.t, p.cmd.Wait(), p.out.String())
	return p.out.String()
}
