package testredis

import (
	"bytes"
	"os/exec"
	"sync"
)

// process is a running program and what it has printed.
type process struct {
	cmd    *exec.Cmd
	output lockedBuffer
	exited chan struct{} // closed when the program has ended and was waited for
}

func run(path string, args []string) (*process, error) {
	p := &process{cmd: exec.Command(path, args...), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.output, &p.output
	endWithParent(p.cmd)
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait() // killed programs end with an error
		close(p.exited)
	}()
	return p, nil
}

// kill ends the program, a stopped one too, and waits until it is gone. It may be
// called again.
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

// lockedBuffer is a bytes.Buffer that is read while it is written.
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
