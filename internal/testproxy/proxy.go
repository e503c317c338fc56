// Package testproxy simulates faults of a network between clients and servers.
package testproxy

import (
	"net"
	"sync"
)

// Proxy is a TCP proxy between clients and a server. Its methods are safe for concurrent use.
type Proxy struct {
	network  string // of the target
	target   string
	listener net.Listener
	work     sync.WaitGroup

	mu      sync.Mutex // guards all below
	conns   map[net.Conn]struct{}
	flow    chan struct{} // closed while bytes to the server may pass
	answers chan struct{} // closed while bytes to clients may pass
	closed  bool
}

// New starts a proxy to an address, whose network is "tcp" or "unix". Close ends it.
func New(network, target string) (*Proxy, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{network: network, target: target, listener: l, conns: map[net.Conn]struct{}{}, flow: make(chan struct{}), answers: make(chan struct{})}
	p.Unblock()
	p.work.Go(p.accept)
	return p, nil
}

// Addr returns the address of the proxy: an IP address and a port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Block stops all bytes in both directions, without closing a connection, until Unblock.
func (p *Proxy) Block() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flow, p.answers = make(chan struct{}), make(chan struct{})
}

// BlockAnswers is Block for bytes to clients only.
func (p *Proxy) BlockAnswers() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers = make(chan struct{})
}

// Unblock lets the bytes pass again.
func (p *Proxy) Unblock() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range []chan struct{}{p.flow, p.answers} {
		select {
		case <-c:
		default:
			close(c)
		}
	}
}

// Cut closes all connections. New ones work.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		_ = c.Close()
	}
}

// Close ends the proxy.
func (p *Proxy) Close() {
	p.mu.Lock()
	p.closed = true
	p.mu.Unlock()
	_ = p.listener.Close()
	p.Unblock()
	p.Cut()
	p.work.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial(p.network, p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.mu.Lock()
		p.conns[client], p.conns[server] = struct{}{}, struct{}{}
		closed := p.closed
		p.mu.Unlock()
		if closed {
			_, _ = client.Close(), server.Close()
		}
		p.work.Go(func() { p.copy(server, client, &p.flow) })
		p.work.Go(func() { p.copy(client, server, &p.answers) })
	}
}

// copy copies one direction of a connection. It waits for the channel that flow points to.
func (p *Proxy) copy(to, from net.Conn, flow *chan struct{}) {
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		p.mu.Lock()
		open := *flow
		p.mu.Unlock()
		<-open
		if err == nil {
			_, err = to.Write(buffer[:n])
		}
		if err != nil {
			_, _ = to.Close(), from.Close()
			p.mu.Lock()
			delete(p.conns, from)
			p.mu.Unlock()
			return
		}
	}
}
