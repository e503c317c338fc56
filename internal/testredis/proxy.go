// A proxy that simulates faults of a network.

package testredis

import (
	"bytes"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// Proxy is a TCP proxy between clients and a server that simulates faults of a network: it
// breaks, blocks and drops connections, and delays answers. Its methods are safe for
// concurrent use.
type Proxy struct {
	target   string
	listener net.Listener
	work     sync.WaitGroup

	mu       sync.Mutex // guards all fields below
	conns    map[net.Conn]struct{}
	flow     chan struct{} // closed unless the proxy is blocked
	closed   bool
	accepted int           // connections so far
	dropped  int           // the connections that Blackhole has dropped: the first so many
	delay    time.Duration // of answers
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

// Client returns a client that reaches the server through the proxy. It is closed at the end
// of the test.
func (p *Proxy) Client(t testing.TB) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{Addr: p.listener.Addr().String()})
	t.Cleanup(func() { _ = rdb.Close() })
	return rdb
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

// Block holds back all data until Unblock. Connections stay open, and the proxy accepts new
// ones.
func (p *Proxy) Block() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.flow = make(chan struct{})
}

// Unblock ends Block. The data that was held back comes first.
func (p *Proxy) Unblock() {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.flow)
}

// Blackhole silently drops all further data on the existing connections, like a firewall that
// has lost its state. The connections stay open. New ones work.
func (p *Proxy) Blackhole() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.dropped = p.accepted
}

// Delay delays each answer by d from now on.
func (p *Proxy) Delay(d time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.delay = d
}

// Accepted returns the number of connections so far.
func (p *Proxy) Accepted() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.accepted
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

// join copies data between two connections. When one ends, it closes the other.
func (p *Proxy) join(client, server net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		_, _ = client.Close(), server.Close()
		return
	}
	p.accepted++
	p.conns[client], p.conns[server] = struct{}{}, struct{}{}
	number := p.accepted
	late := &latePipe{proxy: p, to: writer{p, number, client}, queue: make(chan lateData, 1024), failed: make(chan struct{})}
	p.work.Go(func() {
		defer p.end(server)
		_, _ = io.Copy(writer{p, number, server}, client)
	})
	p.work.Go(func() {
		defer close(late.queue)
		_, _ = io.Copy(late, server)
	})
	p.work.Go(func() {
		defer p.end(client)
		late.run()
	})
}

// end closes one side after the other side has ended.
func (p *Proxy) end(c net.Conn) {
	p.forget(c)
	_ = c.Close()
}

func (p *Proxy) forget(c net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.conns, c)
}

// writer writes to a connection while the proxy is not blocked, and discards the data of a
// dropped connection.
type writer struct {
	proxy  *Proxy
	number int
	to     net.Conn
}

// Write implements io.Writer.
func (w writer) Write(b []byte) (int, error) {
	w.proxy.mu.Lock()
	flow, gone := w.proxy.flow, w.number <= w.proxy.dropped
	w.proxy.mu.Unlock()
	<-flow
	if gone {
		return len(b), nil
	}
	return w.to.Write(b)
}

// latePipe writes answers after the delay of the proxy.
type latePipe struct {
	proxy  *Proxy
	to     writer
	queue  chan lateData
	failed chan struct{} // closed when a write has failed
}

type lateData struct {
	due  time.Time
	data []byte
}

// Write implements io.Writer.
func (l *latePipe) Write(b []byte) (int, error) {
	l.proxy.mu.Lock()
	due := time.Now().Add(l.proxy.delay)
	l.proxy.mu.Unlock()
	select {
	case l.queue <- lateData{due, bytes.Clone(b)}:
		return len(b), nil
	case <-l.failed:
		return 0, net.ErrClosed
	}
}

// run writes the queued answers until the queue is closed.
func (l *latePipe) run() {
	failed := false
	for d := range l.queue {
		if wait := time.Until(d.due); wait > 0 && !failed {
			<-time.After(wait)
		}
		if _, err := l.to.Write(d.data); err != nil && !failed {
			failed = true
			close(l.failed)
		}
	}
}
