// The proxy between a client and a server.

package main

import (
	"bytes"
	"io"
	"net"
	"sync"
	"sync/atomic"
)

// proxy copies connections to a server. It knows no protocol: a chunk is what one read returns.
type proxy struct {
	listener net.Listener
	work     sync.WaitGroup
	chunks   atomic.Int64 // that clients have sent

	mu     sync.Mutex // guards all below
	target string
	up     chan struct{} // closed while bytes to the server may pass
	down   chan struct{} // closed while bytes to the client may pass
	lose   []byte        // the next chunk to the server that has these bytes gets no answer; nil means none
	pairs  map[*pair]struct{}
	closed bool
}

// pair is a connection of a client and the one to the server.
type pair struct {
	client, server net.Conn
	lost           atomic.Bool // the next answer is lost, and the connection with it
}

func newProxy(target string) (*proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{listener: l, target: target, up: make(chan struct{}), down: make(chan struct{}), pairs: map[*pair]struct{}{}}
	close(p.up)
	close(p.down)
	p.work.Go(p.accept)
	return p, nil
}

func (p *proxy) addr() string { return p.listener.Addr().String() }

// block holds back all bytes until unblock; connections stay open. If only requests are held back,
// answers pass.
func (p *proxy) block(requestsOnly bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.up = make(chan struct{})
	if !requestsOnly {
		p.down = make(chan struct{})
	}
}

// unblock delivers what was held back, also of connections that their client has closed, as a network
// does.
func (p *proxy) unblock() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open()
}

func (p *proxy) open() {
	for _, gate := range []chan struct{}{p.up, p.down} {
		select {
		case <-gate:
		default:
			close(gate)
		}
	}
}

// loseAnswer loses the answer to the next chunk that has the text: the server gets the request, and the
// client a closed connection.
func (p *proxy) loseAnswer(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose = []byte(text)
}

// lostOne reports whether loseAnswer has found its chunk.
func (p *proxy) lostOne() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lose == nil
}

// redirect ends all connections. New ones go to another server.
func (p *proxy) redirect(target string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.target = target
	p.cut()
}

func (p *proxy) cut() {
	for c := range p.pairs {
		_ = c.client.Close()
		_ = c.server.Close()
	}
}

func (p *proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	p.open()
	p.cut()
	p.mu.Unlock()
	p.work.Wait()
}

func (p *proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		p.mu.Lock()
		target := p.target
		p.mu.Unlock()
		server, err := net.Dial("tcp", target)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.join(&pair{client: client, server: server})
	}
}

func (p *proxy) join(c *pair) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_, _ = c.client.Close(), c.server.Close()
		return
	}
	p.pairs[c] = struct{}{}
	var both sync.WaitGroup
	both.Go(func() { p.requests(c) })
	both.Go(func() { p.answers(c) })
	p.work.Go(func() {
		both.Wait()
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.pairs, c)
	})
}

// pass waits until bytes may pass.
func (p *proxy) pass(gate *chan struct{}) {
	p.mu.Lock()
	open := *gate
	p.mu.Unlock()
	<-open
}

func (p *proxy) requests(c *pair) {
	buffer := make([]byte, 64<<10)
	for {
		n, err := c.client.Read(buffer)
		p.pass(&p.up)
		if n > 0 {
			p.chunks.Add(1)
			p.mark(c, buffer[:n])
			if _, err := c.server.Write(buffer[:n]); err != nil {
				_ = c.client.Close()
				return
			}
		}
		if err != nil {
			if tcp, ok := c.server.(*net.TCPConn); ok {
				_ = tcp.CloseWrite() // the server still gets what was sent before
			}
			return
		}
	}
}

// mark decides whether the answer to a chunk is lost.
func (p *proxy) mark(c *pair, chunk []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lose != nil && bytes.Contains(chunk, p.lose) {
		p.lose = nil
		c.lost.Store(true)
	}
}

func (p *proxy) answers(c *pair) {
	defer func() { _, _ = c.client.Close(), c.server.Close() }()
	buffer := make([]byte, 64<<10)
	for {
		n, err := c.server.Read(buffer)
		p.pass(&p.down)
		if err != nil || c.lost.Load() {
			return
		}
		if _, err := c.client.Write(buffer[:n]); err != nil {
			_, _ = io.Copy(io.Discard, c.server) // until the server has read all requests
			return
		}
	}
}
