// The process of a server, and its output.

package testredis

import (
	"bytes"
	"os/exec"
	"sync"
	"time"

	"github.com/leasewheel/leasewheel/internal/testprocess"
)

// process is a running program with its output.
type process struct {
	cmd    *exec.Cmd
	output lockedBuffer
	exited chan struct{} // closed after the program has exited
	began  time.Time
}

func run(path string, args []string) (*process, error) {
	p := &process{cmd: exec.Command(path, args...), exited: make(chan struct{}), began: time.Now()}
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	p.cmd.SysProcAttr = testprocess.Detached()
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait() // the error of a killed program is expected
		close(p.exited)
	}()
	return p, nil
}

// kill ends the program, even if it is stopped, and waits until it has exited. It may be called
// again.
func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	<-p.exited
}

func (p *process) hasExited() bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

func (p *process) log() string { return p.output.String() }

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
