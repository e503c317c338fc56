package check

import (
	"encoding/binary"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testzk"
)

// The codes of requests.
const (
	opCreate   = 1 // of a node that is no container
	opGetData  = 4 // may set a watch
	opChildren = 12
)

// tap is a proxy to a server that counts requests. While it loses, it breaks the connection instead
// of passing on the answer to a creation, once.
type tap struct {
	target   string
	listener net.Listener
	work     sync.WaitGroup
	loses    atomic.Bool
	watches  atomic.Int32
	children atomic.Int32
}

func newTap(t *testing.T, m *testzk.Member) *tap {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &tap{target: m.Address, listener: l}
	p.work.Go(func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			p.work.Go(func() { p.serve(client) })
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		p.work.Wait()
	})
	return p
}

// serve passes on the messages of a connection. The first one of each side has no header.
func (p *tap) serve(client net.Conn) {
	defer client.Close()
	server, err := net.Dial("tcp", p.target)
	if err != nil {
		return
	}
	defer server.Close()
	var lost atomic.Int64 // the number of the request whose answer gets lost; numbers begin at 1
	p.work.Go(func() {
		defer server.Close()
		pass(client, server, func(m []byte) bool {
			switch binary.BigEndian.Uint32(m[4:]) {
			case opCreate:
				if p.loses.CompareAndSwap(true, false) {
					lost.Store(int64(binary.BigEndian.Uint32(m)))
				}
			case opGetData:
				p.watches.Add(int32(m[len(m)-1]))
			case opChildren:
				p.children.Add(1)
			}
			return true
		})
	})
	pass(server, client, func(m []byte) bool { return int64(binary.BigEndian.Uint32(m)) != lost.Load() })
}

// pass copies messages until see refuses one. A message begins with its length.
func pass(from, to net.Conn, see func(message []byte) bool) {
	for first := true; ; first = false {
		size := make([]byte, 4)
		if _, err := io.ReadFull(from, size); err != nil {
			return
		}
		message := make([]byte, binary.BigEndian.Uint32(size))
		if _, err := io.ReadFull(from, message); err != nil {
			return
		}
		if !first && !see(message) {
			return
		}
		if _, err := to.Write(append(size, message...)); err != nil {
			return
		}
	}
}
