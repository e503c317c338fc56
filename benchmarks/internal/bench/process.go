package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// ChildEnv is set in the environment of a child: a program that was started by
// itself.
const ChildEnv = "BENCH_CHILD"

// Process is this program in a process of its own, which is told what to do and
// answers, in lines of JSON, on its standard input and output. A is its answer.
type Process[A any] struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	encode *json.Encoder
	decode *json.Decoder
	failed func(A) string
}

// Start runs a child, gives it its order and returns when that is answered. The error
// of an answer is what failed says, if that is not empty.
func Start[A any](order any, failed func(A) string) (*Process[A], error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &Process[A]{cmd: exec.Command(self), failed: failed}
	p.cmd.Env = append(os.Environ(), ChildEnv+"=1")
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.encode, p.decode = json.NewEncoder(p.in), json.NewDecoder(out)
	if _, err := p.Say(order); err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

// Say tells the child something and waits for its answer.
func (p *Process[A]) Say(what any) (A, error) {
	var a A
	if err := p.encode.Encode(what); err != nil {
		return a, err
	}
	if err := p.decode.Decode(&a); err != nil {
		return a, fmt.Errorf("the process has ended: %w", err)
	}
	if text := p.failed(a); text != "" {
		return a, errors.New(text)
	}
	return a, nil
}

// Stop ends the child as a crash would, and waits for it.
func (p *Process[A]) Stop() {
	_ = p.in.Close()
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // killed: an error
}
