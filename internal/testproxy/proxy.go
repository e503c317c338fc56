// Package testproxy simulates faults of a network between clients and servers.
package testproxy

import (
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Proxy is a TCP proxy between clients and a server. Its methods are safe for concurrent use.
type Proxy struct {
	network  string // of the target
	target   string
	listener net.Listener
	work     sync.WaitGroup
	packets  atomic.Int64 // from clients
	accepted atomic.Int64 // connections so far

	mu      sync.Mutex        // guards all below
	conns   map[net.Conn]bool // true: what arrives is dropped
	flow    chan struct{}     // closed while bytes to the server may pass
	answers chan struct{}     // closed while bytes to clients may pass
	delay   time.Duration     // of bytes to clients
	closed  bool
}

// New starts a proxy to an address, whose network is "tcp" or "unix". Close ends it.
func New(network, target string) (*Proxy, error) { return newAt("127.0.0.1:0", network, target) }

func newAt(address, network, target string) (*Proxy, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, err
	}
	p := &Proxy{network: network, target: target, listener: l, conns: map[net.Conn]bool{}, flow: make(chan struct{}), answers: make(chan struct{})}
	p.Unblock()
	p.work.Go(p.accept)
	return p, nil
}

// Addr returns the address of the proxy: an IP address and a port.
func (p *Proxy) Addr() string { return p.listener.Addr().String() }

// Packets returns how often clients have sent something to the server. What comes together counts once, up to 32 kB.
func (p *Proxy) Packets() int64 { return p.packets.Load() }

// Accepted returns the number of connections so far.
func (p *Proxy) Accepted() int { return int(p.accepted.Load()) }

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

// Delay makes bytes to clients arrive later, as those of a longer way do. Bytes on their way do not delay
// others.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
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

// Blackhole drops all further bytes on the connections that there are, like a firewall that has lost its state. They stay
// open. New ones work.
func (p *Proxy) Blackhole() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		p.conns[c] = true
	}
}

// Reset resets all connections. New ones work.
func (p *Proxy) Reset() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		_ = c.Close()
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
		p.accepted.Add(1)
		p.mu.Lock()
		p.conns[client], p.conns[server] = false, false
		closed := p.closed
		p.mu.Unlock()
		if closed {
			_, _ = client.Close(), server.Close()
		}
		p.work.Go(func() { p.copy(server, client, &p.flow) })
		p.work.Go(func() { p.copy(client, server, &p.answers) })
	}
}

// chunk is bytes on their way.
type chunk struct {
	bytes []byte
	due   time.Time
}

// copy copies one direction of a connection. It waits for the channel that flow points to.
func (p *Proxy) copy(to, from net.Conn, flow *chan struct{}) {
	chunks := make(chan chunk, 64)
	p.work.Go(func() { p.read(from, flow == &p.answers, chunks) })
	failed := false
	for c := range chunks {
		time.Sleep(time.Until(c.due))
		p.mu.Lock()
		open, dropped := *flow, p.conns[from]
		p.mu.Unlock()
		<-open
		if failed || dropped {
			continue
		}
		if _, err := to.Write(c.bytes); err != nil {
			failed = true
			_ = from.Close()
		}
	}
	_, _ = to.Close(), from.Close()
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, from)
}

// read reads one direction of a connection until it ends.
func (p *Proxy) read(from net.Conn, answers bool, chunks chan<- chunk) {
	defer close(chunks)
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
		chunks <- chunk{slices.Clone(buffer[:n]), due}
	}
}
