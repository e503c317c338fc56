package testredis

import (
	"io"
	"net"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"
)

// Proxy stands between clients and a server and does what networks do: it breaks
// connections, and it swallows what is sent. Its methods are safe for concurrent
// use.
type Proxy struct {
	target   string
	listener net.Listener
	work     sync.WaitGroup

	mu     sync.Mutex // guards all below
	conns  map[net.Conn]struct{}
	flow   chan struct{} // closed while data flows
	closed bool
}

// StartProxy runs a proxy to a server until the end of the test.
func StartProxy(t testing.TB, s *Server) *Proxy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{target: s.Addr(), listener: l, conns: make(map[net.Conn]struct{}), flow: make(chan struct{})}
	close(p.flow)
	p.work.Go(p.accept)
	t.Cleanup(p.close)
	return p
}

// Client returns a client of the server by way of the proxy. It is closed at the end
// of the test.
func (p *Proxy) Client(t testing.TB) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: p.listener.Addr().String()})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
}

// Reset breaks all connections: both sides get a reset. New ones work.
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

// Swallow lets nothing through any more until Pass: connections stay open, new ones
// are accepted, and all are silent.
func (p *Proxy) Swallow() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flow = make(chan struct{})
}

// Pass lets everything through again, what was held back first.
func (p *Proxy) Pass() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.flow)
}

func (p *Proxy) close() {
	_ = p.listener.Close()
	p.mu.Lock()
	p.closed = true
	select {
	case <-p.flow:
	default:
		close(p.flow)
	}
	p.mu.Unlock()
	p.Reset()
	p.work.Wait()
}

func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		p.join(client, server)
	}
}

// join passes data between two connections. When one ends so does the other.
func (p *Proxy) join(a, b net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_, _ = a.Close(), b.Close()
		return
	}
	p.conns[a], p.conns[b] = struct{}{}, struct{}{}
	p.work.Go(func() { p.pass(a, b) })
	p.work.Go(func() { p.pass(b, a) })
}

func (p *Proxy) pass(to, from net.Conn) {
	defer p.forget(to)
	_, _ = io.Copy(writer{p, to}, from)
	_ = to.Close()
}

func (p *Proxy) forget(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// writer writes when data flows.
type writer struct {
	proxy *Proxy
	to    net.Conn
}

// Write implements io.Writer.
func (w writer) Write(b []byte) (int, error) {
	w.proxy.mu.Lock()
	flow := w.proxy.flow
	w.proxy.mu.Unlock()
	<-flow
	return w.to.Write(b)
}
