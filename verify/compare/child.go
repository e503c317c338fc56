// The harness' side of the process of a client.

package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/leasewheel/leasewheel/internal/testprocess"
	"github.com/leasewheel/leasewheel/internal/testproxy"
)

const answerTimeout = 25 * time.Second // of a process, whatever the fault

// child is a process of a client, with a proxy to each server.
type child struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	proxies []*testproxy.Proxy
	ended   chan struct{} // closed after the output has ended

	mu      sync.Mutex // guards all below, and writes to in
	last    int
	waiting map[int]chan message
	events  []message
}

// startChild starts a process and waits for its first answer.
func startChild(c *candidate, targets []string) (*child, message, error) {
	k := &child{ended: make(chan struct{}), waiting: map[int]chan message{}}
	var addrs []string
	for _, t := range targets {
		p, err := testproxy.New("tcp", t)
		if err != nil {
			k.closeProxies()
			return nil, message{}, err
		}
		k.proxies = append(k.proxies, p)
		addrs = append(addrs, p.Addr())
	}
	var err error
	if k.cmd, err = c.process(addrs); err != nil {
		k.closeProxies()
		return nil, message{}, err
	}
	k.cmd.SysProcAttr = testprocess.Detached()
	if c.command == nil {
		k.cmd.Stderr = os.Stderr // others print what they log
	}
	if err := k.start(); err != nil {
		k.closeProxies()
		return nil, message{}, err
	}
	hello, err := k.call(request{Do: doHello})
	if err != nil {
		k.close()
		return nil, message{}, err
	}
	return k, hello, nil
}

func (k *child) start() (err error) {
	if k.in, err = k.cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := k.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := k.cmd.Start(); err != nil {
		return err
	}
	go k.read(out)
	return nil
}

// read delivers the replies and keeps the events until the output ends.
func (k *child) read(out io.Reader) {
	defer close(k.ended)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var m message
		if json.Unmarshal(lines.Bytes(), &m) != nil {
			continue // a message of a library
		}
		k.mu.Lock()
		if m.ID == 0 {
			k.events = append(k.events, m)
		} else if c := k.waiting[m.ID]; c != nil {
			c <- m
			delete(k.waiting, m.ID)
		}
		k.mu.Unlock()
	}
}

// begin sends a request. Its reply comes on the channel.
func (k *child) begin(r request) <-chan message {
	c := make(chan message, 1)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.last++
	r.ID = k.last
	k.waiting[r.ID] = c
	line, err := json.Marshal(r)
	if err == nil {
		_, err = k.in.Write(append(line, '\n'))
	}
	if err != nil {
		c <- message{Error: err.Error(), At: now()}
		delete(k.waiting, r.ID)
	}
	return c
}

var errNoAnswer = errors.New("no answer")

// wait waits for a reply.
func (k *child) wait(c <-chan message, most time.Duration) (message, error) {
	select {
	case m := <-c:
		if m.Error != "" {
			return m, errors.New(m.Error)
		}
		return m, nil
	case <-k.ended:
		return message{}, errors.New("the process has ended")
	case <-time.After(most):
		return message{}, errNoAnswer
	}
}

func (k *child) call(r request) (message, error) {
	m, err := k.wait(k.begin(r), answerTimeout)
	if err != nil {
		err = fmt.Errorf("%s: %w", r.Do, err)
	}
	return m, err
}

// told returns when the library of a session reported that the lock is lost.
func (k *child) told(session string, after int64) (at int64, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, e := range k.events {
		if e.Event == eventTold && e.Session == session && e.At >= after {
			return e.At, true
		}
	}
	return 0, false
}

func (k *child) signal(s syscall.Signal) error { return k.cmd.Process.Signal(s) }

// packets returns how many packets the process has sent to the servers.
func (k *child) packets() (n int64) {
	for _, p := range k.proxies {
		n += p.Packets()
	}
	return n
}

// kill ends the process as kill -9 does.
func (k *child) kill() {
	_ = k.cmd.Process.Kill()
	<-k.ended
	_ = k.cmd.Wait()
}

// close kills the process and ends its connections.
func (k *child) close() {
	k.kill()
	k.closeProxies()
}

func (k *child) closeProxies() {
	for _, p := range k.proxies {
		p.Close()
	}
}
