// Package testproxy simulates faults of a network between clients and servers.
package testproxy

import (
	"bytes"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Proxy is a TCP proxy between clients and a server. It knows no protocol: a packet is what one read
// returns. Its methods are safe for concurrent use.
type Proxy struct {
	network  string // of the target
	listener net.Listener
	ended    chan struct{} // closed by Close
	work     sync.WaitGroup
	packets  atomic.Int64 // from clients

	mu       sync.Mutex // guards all below
	target   string
	pairs    map[*pair]struct{}
	requests chan struct{} // closed while bytes to the server may pass
	answers  chan struct{} // closed while bytes to clients may pass
	delay    time.Duration // of bytes to clients
	lose     []byte        // the answer to the next packet with these bytes is lost; nil: none is
	accepted int
	closed   bool
}

// pair is the connection of a client and the one to the server.
type pair struct {
	client, server net.Conn
	dropped        atomic.Bool // all further bytes are
	lost           atomic.Bool // the next answer is, and the connection with it
}

func (c *pair) close() { _, _ = c.client.Close(), c.server.Close() }

// New starts a proxy to an address, whose network is "tcp" or "unix". Close ends it.
func New(network, target string) (*Proxy, error) { return newAt("127.0.0.1:0", network, target) }

func newAt(address, network, target string) (*Proxy, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	p := &Proxy{
		network: network, target: target, listener: l, ended: make(chan struct{}),
		pairs: map[*pair]struct{}{}, requests: make(chan struct{}), answers: make(chan struct{}),
	}
	p.Unblock()
	p.work.Go(p.accept)
	return p, nil
}

// Addr returns the address of the proxy: an IP address and a port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Packets returns how often clients have sent something to the server. What comes together counts once, up to 32 kB.
func (p *Proxy) Packets() int64 { return p.packets.Load() }

// Accepted returns the number of connections so far.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
}

// Block holds back all bytes in both directions until Unblock. Connections stay open, and new ones are accepted.
func (p *Proxy) Block() {
	p.BlockRequests()
	p.BlockAnswers()
}

// BlockRequests is Block for bytes to the server only.
func (p *Proxy) BlockRequests() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests = make(chan struct{})
}

// BlockAnswers is Block for bytes to clients only.
func (p *Proxy) BlockAnswers() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answers = make(chan struct{})
}

// Unblock lets the bytes pass again, first the bytes that were held back. That includes bytes of connections that
// the client has closed.
func (p *Proxy) Unblock() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, gate := range []chan struct{}{p.requests, p.answers} {
		select {
		case <-gate:
		default:
			close(gate)
		}
	}
}

// Delay makes bytes to clients arrive later, as those of a longer way do. Bytes on their way do not delay others.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// LoseAnswer loses the answer to the next packet that has the text: the server gets the packet, and the client a
// closed connection.
func (p *Proxy) LoseAnswer(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.lose = []byte(text)
}

// HasLost reports whether LoseAnswer has found its packet.
func (p *Proxy) HasLost() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lose == nil
}

// Blackhole drops all further bytes of the existing connections, like a firewall that has lost its state. The
// connections stay open. New ones work.
func (p *Proxy) Blackhole() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		c.dropped.Store(true)
	}
}

// Cut closes all connections. New ones work.
func (p *Proxy) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		c.close()
	}
}

// Reset is Cut by TCP resets.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.pairs {
		for _, one := range []net.Conn{c.client, c.server} {
			if tcp, ok := one.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
		}
		c.close()
	}
}

// Redirect ends all connections. New ones go to another address.
func (p *Proxy) Redirect(target string) {
	p.mu.Lock()
	p.target = target
	p.mu.Unlock()
	p.Cut()
}

// Close ends the proxy.
func (p *Proxy) Close() {
	p.mu.Lock()
	if !p.closed {
		close(p.ended)
	}
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
		p.mu.Lock()
		target := p.target
		p.mu.Unlock()
		server, err := net.Dial(p.network, target)
		if err != nil {
			_ = client.Close()
			continue
		}
		c := &pair{client: client, server: server}
		p.mu.Lock()
		p.pairs[c] = struct{}{}
		p.accepted++
		closed := p.closed
		p.mu.Unlock()
		if closed {
			c.close()
		}
		var both sync.WaitGroup
		both.Go(func() { p.copy(c, client, server, &p.requests) })
		both.Go(func() { p.copy(c, server, client, &p.answers) })
		p.work.Go(func() {
			both.Wait()
			p.mu.Lock()
			defer p.mu.Unlock()
			delete(p.pairs, c)
		})
	}
}

// packet is bytes on their way.
type packet struct {
	bytes []byte
	due   time.Time
}

// copy copies one direction of a connection. Each packet waits for the channel that gate points to. When one
// side has ended, and the other has got all that it sent before, copy closes both.
func (p *Proxy) copy(c *pair, from, to net.Conn, gate *chan struct{}) {
	packets := make(chan packet, 64)
	p.work.Go(func() { p.read(from, gate == &p.answers, packets) })
	failed := false
	for one := range packets {
		if wait := time.Until(one.due); wait > 0 {
			select {
			case <-time.After(wait):
			case <-p.ended:
			}
		}
		p.mu.Lock()
		open := *gate
		p.mu.Unlock()
		<-open
		if failed || c.dropped.Load() {
			continue
		}
		if gate == &p.requests {
			p.mark(c, one.bytes)
		} else if c.lost.Load() {
			failed = true
			c.close()
			continue
		}
		if _, err := to.Write(one.bytes); err != nil {
			failed = true
			if gate == &p.requests { // otherwise the server still gets what the client has sent
				_ = from.Close()
			}
		}
	}
	c.close()
}

// mark decides whether the answer to a packet is lost.
func (p *Proxy) mark(c *pair, text []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.lose != nil && bytes.Contains(text, p.lose) {
		p.lose = nil
		c.lost.Store(true)
	}
}

// read reads one direction of a connection until it ends.
func (p *Proxy) read(from net.Conn, answers bool, packets chan<- packet) {
	defer close(packets)
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if err != nil {
			return
		}
		due := time.Now()
		if answers {
			p.mu.Lock()
			due = due.Add(p.delay)
			p.mu.Unlock()
		} else {
			p.packets.Add(1)
		}
		packets <- packet{slices.Clone(buffer[:n]), due}
	}
}
