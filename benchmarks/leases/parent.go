package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
)

// childEnv makes this program a child of itself.
const childEnv = "BENCH_LEASES_CHILD"

// process is a contestant in a process of its own.
type process struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	encode *json.Encoder
	decode *json.Decoder
}

// start runs a contestant and returns when it has its locks.
func start(o order) (*process, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &process{cmd: exec.Command(self)}
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
	if _, err := p.say(o); err != nil {
		p.stop()
		return nil, err
	}
	return p, nil
}

// say tells the child something and waits for its answer.
func (p *process) say(what any) (answer, error) {
	var a answer
	if err := p.encode.Encode(what); err != nil {
		return a, err
	}
	if err := p.decode.Decode(&a); err != nil {
		return a, fmt.Errorf("the process has ended: %w", err)
	}
	if a.Error != "" {
		return a, errors.New(a.Error)
	}
	return a, nil
}

// stop ends the child as a crash would, and waits for it.
func (p *process) stop() {
	_ = p.in.Close()
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait() // killed: an error
}
