// Names of servers, and the addresses to which they lead.

package testproxy

import (
	"context"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

var (
	names     sync.Map // of the form host.test: its addresses, []string
	nameCount atomic.Int64
)

// ServeNames makes the names of this package known to the process. TestMain calls it first. All other names that are
// not in /etc/hosts are unknown then.
func ServeNames() {
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		client, server := net.Pipe() // no net.PacketConn, so each message comes after its length
		go answerNames(server)
		return client, nil
	}}
}

// Moved is servers that have one name and change their address. Their ports stay.
type Moved struct {
	old  []*Proxy // at the first address
	name string
	port string // of the first server
}

// NewName returns a name of the form host.test that leads to addresses without ports, see SetName.
func NewName(addresses ...string) string {
	name := fmt.Sprintf("n%d.test", nameCount.Add(1))
	SetName(name, addresses...)
	return name
}

// SetName makes a name lead to addresses from now on. Without addresses the name is unknown.
func SetName(name string, addresses ...string) { names.Store(name, addresses) }

// NewMoved gives a name to servers at ports of 127.0.0.1. The name leads to another address, until Move.
func NewMoved(t testing.TB, servers ...string) *Moved {
	t.Helper()
	m := &Moved{name: NewName(oldAddress)}
	for i, server := range servers {
		_, port, err := net.SplitHostPort(server)
		require.NoError(t, err)
		old, err := newAt(net.JoinHostPort(oldAddress, port), "tcp", server)
		require.NoError(t, err)
		t.Cleanup(old.Close)
		m.old = append(m.old, old)
		if i == 0 {
			m.port = port
		}
	}
	return m
}

const oldAddress = "127.0.0.2"

// Addr returns the name and the port of the first server.
func (m *Moved) Addr() string { return net.JoinHostPort(m.name, m.port) }

// Name returns the name.
func (m *Moved) Name() string { return m.name }

// Move makes the name lead to the servers themselves. Nothing listens at the first address any more.
func (m *Moved) Move() {
	SetName(m.name, "127.0.0.1")
	for _, old := range m.old {
		old.Close()
	}
}

// Moves are Move, and two ways in which the first address becomes silent instead: it accepts connections and answers
// nothing any more. Clients keep their connections to it, or have lost them and dial it when the name changes.
var Moves = map[string]func(*Moved){
	"refused": (*Moved).Move,
	"silent": func(m *Moved) {
		for _, old := range m.old {
			old.Block()
		}
		SetName(m.name, "127.0.0.1")
	},
	"silent when dialed": func(m *Moved) {
		for _, old := range m.old {
			old.Block()
			old.Cut()
		}
		time.Sleep(time.Second)
		SetName(m.name, "127.0.0.1")
	},
}

const (
	headerSize = 12 // of a DNS message
	typeA      = 1
	ttl        = 1 // s
)

// answerNames answers the questions of a connection, until it is closed.
func answerNames(c net.Conn) {
	defer func() { _ = c.Close() }()
	for {
		var size [2]byte
		if _, err := io.ReadFull(c, size[:]); err != nil {
			return
		}
		question := make([]byte, binary.BigEndian.Uint16(size[:]))
		if _, err := io.ReadFull(c, question); err != nil {
			return
		}
		answer := answerName(question)
		if _, err := c.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(answer))), answer...)); err != nil {
			return
		}
	}
}

// answerName returns the answer to a question for one name.
func answerName(question []byte) []byte {
	var labels []string
	at := headerSize
	for question[at] != 0 {
		end := at + 1 + int(question[at])
		labels = append(labels, string(question[at+1:end]))
		at = end
	}
	kind := binary.BigEndian.Uint16(question[at+1:])
	known, _ := names.Load(strings.ToLower(strings.Join(labels, ".")))
	addresses, _ := known.([]string)
	answer := append([]byte(nil), question[:at+5]...) // without additional records
	answer[2], answer[3] = 0x81, 0x80                 // an answer, without an error
	clear(answer[6:headerSize])
	if len(addresses) == 0 {
		answer[3] |= 3 // there is no such name
	}
	if kind != typeA {
		return answer
	}
	for _, a := range addresses {
		answer[7]++
		answer = append(answer, 0xc0, headerSize, 0, typeA, 0, 1, 0, 0, 0, ttl, 0, net.IPv4len) // the name is that of the question
		answer = append(answer, net.ParseIP(a).To4()...)
	}
	return answer
}
