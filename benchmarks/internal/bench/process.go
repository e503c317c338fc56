package bench

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// childEnv is set in the environment of a child: a program that was started by
// itself.
const childEnv = "BENCH_CHILD"

// Child tells whether this process is a child.
func Child() bool { return os.Getenv(childEnv) != "" }

// said is what a child answers.
type said[A any] struct {
	Error  string `json:",omitempty"`
	Answer A
}

// Process is this program in a process of its own, which is told what to do and
// answers, in lines of JSON, on its standard input and output. A is its answer.
type Process[A any] struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	encode *json.Encoder
	decode *json.Decoder
}

// Start runs a child, gives it its order and returns when that is answered. The
// error is that of the child if it cannot follow the order.
func Start[A any](order any) (*Process[A], error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &Process[A]{cmd: exec.Command(self)}
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
	if _, err := p.Say(order); err != nil {
		p.Stop()
		return nil, err
	}
	return p, nil
}

// Say tells the child something and waits for its answer, or its error.
func (p *Process[A]) Say(what any) (A, error) {
	var s said[A]
	if err := p.encode.Encode(what); err != nil {
		return s.Answer, err
	}
	if err := p.decode.Decode(&s); err != nil {
		return s.Answer, fmt.Errorf("the process has ended: %w", err)
	}
	if s.Error != "" {
		return s.Answer, errors.New(s.Error)
	}
	return s.Answer, nil
}

// Stop ends the child as a crash would, and waits for it.
func (p *Process[A]) Stop() {
	_ = p.in.Close()
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // killed: an error
}

// Serve is the child's side: obey gets its order, and what it returns does each word
// that it is told after that, until the input ends, which it does with the parent.
func Serve[O, A any](in io.Reader, out io.Writer, obey func(order O) (do func(word string) (A, error), err error)) error {
	decode, encode := json.NewDecoder(in), json.NewEncoder(out)
	var order O
	if err := decode.Decode(&order); err != nil {
		return err
	}
	do, err := obey(order)
	if err != nil {
		return encode.Encode(said[A]{Error: err.Error()})
	}
	if err := encode.Encode(said[A]{}); err != nil {
		return err
	}
	for {
		var word string
		if err := decode.Decode(&word); err != nil {
			return nil // the parent has gone
		}
		var s said[A]
		if s.Answer, err = do(word); err != nil {
			s.Error = err.Error()
		}
		if err := encode.Encode(s); err != nil {
			return err
		}
	}
}
