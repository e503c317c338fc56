package tlsdial_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"runtime"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/leasewheel/leasewheel/internal/tlsdial"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve accepts connections and sends reply after the first line that it receives. Then it closes them, and calls closed.
func serve(t *testing.T, reply string, closed func()) string {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var work sync.WaitGroup
	work.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			work.Go(func() {
				line, err := bufio.NewReader(conn).ReadString('\n')
				assert.NoError(t, err)
				assert.Equal(t, "PING\r\n", line, "no secret")
				_, _ = conn.Write([]byte(reply))
				_ = conn.Close()
				closed()
			})
		}
	})
	t.Cleanup(func() {
		_ = l.Close()
		work.Wait()
	})
	return l.Addr().String()
}

func TestAServerWithoutTLSIsNamed(t *testing.T) {
	t.Parallel()
	hangs := func(ctx context.Context, _, _ string) (net.Conn, error) { // as a handshake does
		<-ctx.Done()
		return nil, ctx.Err()
	}
	for _, reply := range []string{"+PONG\r\n", "-NOAUTH Authentication required.\r\n"} {
		t.Run(reply, func(t *testing.T) {
			t.Parallel()
			addr := serve(t, reply, func() {})
			_, err := tlsdial.Dialer(hangs)(t.Context(), "tcp", addr)
			assert.Equal(t, tlsdial.NoTLSError{Addr: addr}, err)
		})
	}
}

func TestAnotherServerKeepsItsError(t *testing.T) {
	t.Parallel()
	errSlow := errors.New("slow")
	for _, reply := range []string{"", "HTTP/1.1 400 Bad Request\r\n", "\x15\x03\x01\x00\x02\x02\x16\n"} {
		t.Run(reply, func(t *testing.T) {
			t.Parallel()
			asked := make(chan struct{})
			addr := serve(t, reply, func() { close(asked) })
			_, err := tlsdial.Dialer(func(context.Context, string, string) (net.Conn, error) {
				<-asked
				return nil, errSlow
			})(t.Context(), "tcp", addr)
			assert.Equal(t, errSlow, err)
		})
	}
}

func TestADialerThatPanicsOrExitsIsAnError(t *testing.T) {
	t.Parallel()
	for want, dial := range map[string]tlsdial.Func{
		"the Dialer panicked: no route":    func(context.Context, string, string) (net.Conn, error) { panic("no route") },
		"the Dialer called runtime.Goexit": func(context.Context, string, string) (net.Conn, error) { runtime.Goexit(); return nil, nil },
	} {
		_, err := tlsdial.Dialer(dial)(t.Context(), "tcp", "127.0.0.1:1")
		require.EqualError(t, err, want)
	}
}
