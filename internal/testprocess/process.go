// The process of a server, and its output.

package testprocess

import (
	"bytes"
	"fmt"
	"os/exec"
	"sync"
	"time"
)

// Process is a running program with its output.
type Process struct {
	Cmd    *exec.Cmd
	Began  time.Time
	output lockedBuffer
	exited chan struct{} // closed after the program has exited
}

// Start starts a program, which is [Detached] unless it has other attributes.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{Cmd: cmd, Began: time.Now(), exited: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = &p.output, &p.output
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = Detached()
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = cmd.Wait() // the error of a killed program is expected
		close(p.exited)
	}()
	return p, nil
}

// Kill ends the program, even if it is stopped, and waits until it has exited. It may be called again.
func (p *Process) Kill() {
	_ = p.Cmd.Process.Kill()
	<-p.exited
}

// HasExited reports whether the program has exited.
func (p *Process) HasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// Output returns what the program has written so far.
func (p *Process) Output() string { return p.output.String() }

// startTime is how long a server may take to start on a busy machine.
const startTime = 2 * time.Minute

// Await calls ready until it returns nil. Otherwise, after the exit of the program or two minutes, its error names the
// reason and has the output of the program.
func (p *Process) Await(ready func() error) (err error) {
	for end := time.Now().Add(startTime); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if err = ready(); err == nil {
			return nil
		}
		if p.HasExited() {
			break
		}
	}
	return fmt.Errorf("testprocess: %s does not answer: %w\n%s", p.Cmd.Path, err, p.Output())
}

// lockedBuffer is a bytes.Buffer for concurrent use.
type lockedBuffer struct {
	mu     sync.Mutex // guards buffer
	buffer bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
