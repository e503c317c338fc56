package check

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/leasewheel/leasewheel/internal/testproxy"
)

// gate is where a member is reached by its peers. It has a link for each peer, which can be cut.
// A connection belongs to the peer that its first request names.
type gate struct {
	target   string
	listener net.Listener
	work     sync.WaitGroup

	mu    sync.Mutex                  // guards all below
	links map[string]*testproxy.Proxy // by the ID of the peer, as its requests have it
	conns map[net.Conn]struct{}
	ended bool
}

// newGate returns a gate before an address, which ends with the test.
func newGate(t testing.TB, target string) *gate {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	g := &gate{target: target, listener: l, links: map[string]*testproxy.Proxy{}, conns: map[net.Conn]struct{}{}}
	g.work.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			g.work.Go(func() { g.serve(conn) })
		}
	})
	t.Cleanup(g.close)
	return g
}

func (g *gate) addr() string { return g.listener.Addr().String() }

// serve passes on a connection by the link of its peer.
func (g *gate) serve(conn net.Conn) {
	defer g.drop(conn)
	if !g.keep(conn) {
		return
	}
	sent := new(recorder)
	request, err := http.ReadRequest(bufio.NewReaderSize(io.TeeReader(conn, sent), 16))
	if err != nil {
		return
	}
	link, err := g.link(request.Header.Get("X-Server-From"))
	if err != nil {
		return
	}
	onward, err := net.Dial("tcp", link.Addr())
	if err != nil {
		return
	}
	defer g.drop(onward)
	if !g.keep(onward) {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(conn, onward)
		g.drop(conn)
	})
	if _, err := onward.Write(sent.bytes); err == nil {
		_, _ = io.Copy(onward, conn)
	}
	g.drop(onward)
	back.Wait()
}

// recorder keeps what is written to it.
type recorder struct{ bytes []byte }

func (r *recorder) Write(b []byte) (int, error) {
	r.bytes = append(r.bytes, b...)
	return len(b), nil
}

// link returns the link of a peer, and makes it if there is none.
func (g *gate) link(peer string) (*testproxy.Proxy, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.ended {
		return nil, net.ErrClosed
	}
	if g.links[peer] == nil {
		link, err := testproxy.New("tcp", g.target)
		if err != nil {
			return nil, err
		}
		g.links[peer] = link
	}
	return g.links[peer], nil
}

// keep notes a connection that close must close, unless the gate is closed.
func (g *gate) keep(conn net.Conn) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.conns[conn] = struct{}{}
	return !g.ended
}

func (g *gate) drop(conn net.Conn) {
	_ = conn.Close()
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.conns, conn)
}

func (g *gate) close() {
	_ = g.listener.Close()
	g.mu.Lock()
	g.ended = true
	for conn := range g.conns {
		_ = conn.Close()
	}
	g.mu.Unlock()
	g.work.Wait()
	for _, link := range g.links {
		link.Close()
	}
}

// cutOff drops everything between a member and its peers, in both directions, until heal is called.
func cutOff(t testing.TB, client *clientv3.Client, m *member, others ...*member) (heal func()) {
	t.Helper()
	list, err := client.MemberList(context.Background())
	require.NoError(t, err)
	ids := map[string]string{}
	for _, member := range list.Members {
		ids[member.Name] = strconv.FormatUint(member.ID, 16)
	}
	var cut []*testproxy.Proxy
	for _, other := range others {
		there, err := other.gate.link(ids[m.name])
		require.NoError(t, err)
		back, err := m.gate.link(ids[other.name])
		require.NoError(t, err)
		cut = append(cut, there, back)
	}
	for _, link := range cut {
		link.Block()
	}
	return func() {
		for _, link := range cut {
			link.Unblock()
		}
	}
}
