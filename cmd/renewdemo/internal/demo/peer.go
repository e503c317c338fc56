// The holder of a proof, as its rival sees it.

package demo

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"time"
)

// message is a message of the holder.
type message struct {
	what  string
	at    time.Time
	value uint64
}

// peer is the holder as the other side sees it: a child process, or a goroutine.
type peer struct {
	in       io.WriteCloser
	messages chan message
	seen     []message // received, and not yet waited for
	process  *os.Process
	end      func() error // waits for the end of the holder, and returns its error
}

// proofKey returns a new key.
func proofKey(fault string) string {
	return fmt.Sprintf("renewdemo:%08x:%s", rand.Uint32(), strings.ReplaceAll(fault, " ", "-"))
}

// startHolder starts a holder as a child process, which writes its errors to stderr if that is not nil.
func startHolder(url string, stderr io.Writer) (*peer, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(exe)
	cmd.Env = append(os.Environ(), holderEnv+"="+url)
	cmd.Stderr = stderr
	detach(cmd) // it ends with its input
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	p := newPeer(in, out)
	p.process, p.end = cmd.Process, cmd.Wait
	return p, nil
}

// startLocal starts a holder as a goroutine of this process.
func startLocal(ctx context.Context, b *backend) *peer {
	in, commands := io.Pipe()
	out, replies := io.Pipe()
	result := make(chan error, 1)
	go func() {
		err := holdLock(ctx, b, in, replies)
		_ = in.CloseWithError(errors.New("the holder has ended"))
		_ = replies.Close()
		result <- err
	}()
	p := newPeer(commands, out)
	p.end = func() error { return <-result }
	return p
}

func newPeer(in io.WriteCloser, out io.Reader) *peer {
	p := &peer{in: in, messages: make(chan message, 16)} // a holder sends four messages, and one for each renewal
	go func() {
		defer close(p.messages)
		for lines := bufio.NewScanner(out); lines.Scan(); {
			var m message
			var ns int64
			if _, err := fmt.Sscanf(lines.Text(), "%s %d %d", &m.what, &ns, &m.value); err != nil {
				continue
			}
			m.at = time.Unix(0, ns)
			p.messages <- m
		}
	}()
	return p
}

// send sends a command.
func (p *peer) send(format string, args ...any) error {
	_, err := fmt.Fprintf(p.in, format+"\n", args...)
	if err != nil {
		return fmt.Errorf("the holder does not listen: %w", err)
	}
	return nil
}

// wait returns the first message with the given name.
func (p *peer) wait(ctx context.Context, what string) (message, error) {
	return p.waitAfter(ctx, what, time.Time{})
}

// waitAfter is wait for a message whose instant is after the given one.
func (p *peer) waitAfter(ctx context.Context, what string, after time.Time) (message, error) {
	for _, m := range p.seen {
		if m.what == what && m.at.After(after) {
			return m, nil
		}
	}
	for {
		select {
		case m, ok := <-p.messages:
			if !ok {
				return m, fmt.Errorf("the holder ended before the message %q", what)
			}
			p.seen = append(p.seen, m)
			if m.what == what && m.at.After(after) {
				return m, nil
			}
		case <-ctx.Done():
			return message{}, fmt.Errorf("no message %q of the holder: %w", what, context.Cause(ctx))
		}
	}
}

// pause stops the process of the holder.
func (p *peer) pause() error { return stopProcess(p.process) }

// resume continues it.
func (p *peer) resume() error { return continueProcess(p.process) }

// close ends the holder and waits for it.
func (p *peer) close() error {
	_ = p.in.Close()
	if p.process != nil {
		_ = continueProcess(p.process) // a stopped process does not see that its input has ended
	}
	for range p.messages { // ends with the output of the holder
	}
	return p.end()
}
