package zkstore_test

import (
	"encoding/base64"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/internal/testzk"
	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/lock/zkstore"
)

// createOp is the code of the requests that create a node which is no container.
const createOp = 1

// lossy is a proxy to a server. While it is armed, it breaks the connection instead of passing on the
// answer to a creation, once.
type lossy struct {
	target   string
	listener net.Listener
	work     sync.WaitGroup
	armed    atomic.Bool
}

func newLossy(t *testing.T, m *testzk.Member) *lossy {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &lossy{target: m.Address, listener: l}
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
func (p *lossy) serve(client net.Conn) {
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
			if binary.BigEndian.Uint32(m[4:]) == createOp && p.armed.CompareAndSwap(true, false) {
				lost.Store(int64(binary.BigEndian.Uint32(m)))
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

// The server creates the node of an owner, and its answer is lost with the connection.
func TestTheAnswerToACreationIsLost(t *testing.T) {
	t.Parallel()
	members := testzk.Start(t, 1)
	conn := connect(t, members...)
	nodes := func(key string) []string {
		names, _, err := conn.Children("/leasewheel/" + base64.RawURLEncoding.EncodeToString([]byte(key)))
		if !errors.Is(err, zk.ErrNoNode) { // a server may remove an empty container
			require.NoError(t, err)
		}
		return names
	}
	for name, test := range map[string]func(t *testing.T, s *zkstore.Store, r driver.Request){
		"Acquire": func(t *testing.T, s *zkstore.Store, r driver.Request) {
			_, err := s.Acquire(t.Context(), r)
			require.Error(t, err)
			before := nodes(r.Key)
			require.Len(t, before, 1)
			l, err := s.Acquire(t.Context(), r)
			require.NoError(t, err)
			assert.Equal(t, before, nodes(r.Key), "the second request finds the node of the first one")
			require.NoError(t, s.Release(t.Context(), l))
		},
		"Wait": func(t *testing.T, s *zkstore.Store, r driver.Request) {
			l, err := s.Wait(t.Context(), r)
			require.NoError(t, err)
			assert.True(t, l.Unanswered)
			assert.Len(t, nodes(r.Key), 1)
			require.NoError(t, s.Release(t.Context(), l))
		},
		"Release": func(t *testing.T, s *zkstore.Store, r driver.Request) {
			_, err := s.Acquire(t.Context(), r)
			require.Error(t, err)
			require.Len(t, nodes(r.Key), 1)
			require.NoError(t, s.Release(t.Context(), driver.Lease{Request: r, Unanswered: true}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			p := newLossy(t, members[0])
			s := openAt(t, sessionTimeout, p.listener.Addr().String())
			r := driver.Request{Key: name, Owner: "a:1", TTL: 10 * time.Second}
			warm, err := s.Acquire(t.Context(), driver.Request{Key: name, Owner: "first:1", TTL: 10 * time.Second}) // creates the node of the lock
			require.NoError(t, err)
			require.NoError(t, s.Release(t.Context(), warm))
			p.armed.Store(true)
			test(t, s, r)
			assert.False(t, p.armed.Load(), "an answer was lost")
			assert.Empty(t, nodes(r.Key))
		})
	}
}
