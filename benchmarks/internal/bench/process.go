// Child processes, and the JSON lines between them and their parent.

package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// childEnv marks a process that a benchmark program started from its own binary.
const childEnv = "BENCH_CHILD"

// IsChild reports whether this process is a child.
func IsChild() bool { return os.Getenv(childEnv) != "" }

// reply is what a child sends for each request.
type reply struct {
	Error  string `json:",omitempty"`
	Values Values
}

// Process is a child: this program in a process of its own. Parent and child
// exchange lines of JSON on the child's standard input and output.
type Process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	encode *json.Encoder
	decode *json.Decoder
}

// Start starts a child, sends it its task and returns after the child has set up
// the task. It returns the child's error if the setup fails.
func Start(task any) (*Process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &Process{cmd: exec.Command(self)}
	p.cmd.Env = append(os.Environ(), childEnv+"=1")
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
	if _, err := p.call(task); err != nil {
		p.Kill()
		return nil, err
	}
	return p, nil
}

// KillAfter kills the child when ctx ends, so that a Call fails. The returned function ends that.
func (p *Process) KillAfter(ctx context.Context) (stop func() bool) {
	return context.AfterFunc(ctx, func() { _ = p.cmd.Process.Kill() })
}

// Call sends a request to the child and waits for the figures or the error.
func (p *Process) Call(request string) (Values, error) { return p.call(request) }

func (p *Process) call(message any) (Values, error) {
	var r reply
	if err := p.encode.Encode(message); err != nil {
		return nil, err
	}
	if err := p.decode.Decode(&r); err != nil {
		return nil, fmt.Errorf("child process ended: %w", err)
	}
	if r.Error != "" {
		return nil, errors.New(r.Error)
	}
	return r.Values, nil
}

// Kill ends the child as a crash would, and waits for its end.
func (p *Process) Kill() {
	_ = p.in.Close()
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // reports the kill
}

// Serve is the child's side of Start and Call. It passes the task to setup, and
// then each request to the function that setup returned. Serve returns when the
// input ends; the input ends with the parent.
func Serve[T any](in io.Reader, out io.Writer, setup func(task T) (handle func(request string) (Values, error), err error)) error {
	decode, encode := json.NewDecoder(in), json.NewEncoder(out)
	var task T
	if err := decode.Decode(&task); err != nil {
		return err
	}
	handle, err := setup(task)
	if err != nil {
		return encode.Encode(reply{Error: err.Error()})
	}
	if err := encode.Encode(reply{}); err != nil {
		return err
	}
	for {
		var request string
		if err := decode.Decode(&request); err != nil {
			return nil // the parent has ended
		}
		var r reply
		if r.Values, err = handle(request); err != nil {
			r.Error = err.Error()
		}
		if err := encode.Encode(r); err != nil {
			return err
		}
	}
}
