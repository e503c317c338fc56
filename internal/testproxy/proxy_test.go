package testproxy_test

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/internal/testproxy"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// served starts a server and a proxy to it. The server echoes, and got has what it has received of each
// connection when that has ended.
func served(t *testing.T) (p *testproxy.Proxy, got <-chan string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p, err = testproxy.New("tcp", l.Addr().String())
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
		p.Close()
		_ = l.Close()
	})
	return p, all
}

// dial connects to a proxy and sends it a text.
func dial(t *testing.T, p *testproxy.Proxy, text string) net.Conn {
	c, err := net.Dial("tcp", p.Addr())
	require.NoError(t, err)
	_, err = io.WriteString(c, text)
	require.NoError(t, err)
	return c
}

func TestARedirectEndsConnections(t *testing.T) {
	p, got := served(t)
	other, gotOther := served(t)
	c := dial(t, p, "x")
	_, err := io.ReadFull(c, make([]byte, 1))
	require.NoError(t, err)
	p.Redirect(other.Addr())
	_, err = c.Read(make([]byte, 1))
	require.Error(t, err)
	assert.Equal(t, "x", <-got)
	require.NoError(t, dial(t, p, "y").Close())
	assert.Equal(t, "y", <-gotOther)
}

func TestALostAnswerEndsItsConnection(t *testing.T) {
	p, got := served(t)
	p.LoseAnswer("b")
	for _, text := range []string{"a", "b", "b"} {
		loses := text == "b" && !p.HasLost()
		c := dial(t, p, text)
		_, err := io.ReadFull(c, make([]byte, 1))
		assert.Equal(t, loses, err != nil, "%v", err)
		require.NoError(t, c.Close())
		assert.Equal(t, text, <-got)
	}
	assert.True(t, p.HasLost())
}

func TestABlockedRequestArrivesAfterItsClientHasGone(t *testing.T) {
	p, got := served(t)
	p.BlockRequests()
	require.NoError(t, dial(t, p, "x").Close())
	require.Eventually(t, func() bool { return p.Packets() == 1 }, time.Minute, time.Millisecond)
	p.Unblock()
	assert.Equal(t, "x", <-got)
}
