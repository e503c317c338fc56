package main

import (
	"io"
	"net"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// served starts a server and a proxy to it. The server echoes, and got has what it has received of each
// connection when that has ended.
func served(t *testing.T) (p *proxy, got <-chan string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p, err = newProxy(l.Addr().String())
	require.NoError(t, err)
	all := make(chan string, 1)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			text, _ := io.ReadAll(io.TeeReader(c, c))
			_ = c.Close()
			all <- string(text)
		}
	}()
	t.Cleanup(func() {
		p.close()
		_ = l.Close()
	})
	return p, all
}

func TestARedirectEndsConnections(t *testing.T) {
	p, got := served(t)
	other, gotOther := served(t)
	c, err := net.Dial("tcp", p.addr())
	require.NoError(t, err)
	_, err = io.WriteString(c, "x")
	require.NoError(t, err)
	_, err = io.ReadFull(c, make([]byte, 1))
	require.NoError(t, err)
	p.redirect(other.addr())
	_, err = c.Read(make([]byte, 1))
	require.Error(t, err)
	assert.Equal(t, "x", <-got)
	c, err = net.Dial("tcp", p.addr())
	require.NoError(t, err)
	_, err = io.WriteString(c, "y")
	require.NoError(t, err)
	require.NoError(t, c.Close())
	assert.Equal(t, "y", <-gotOther)
}
