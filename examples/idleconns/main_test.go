package main

import (
	"bufio"
	"context"
	"fmt"
	"log"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/examples/internal/exampletest"
	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/wheel"
)

func TestMain(m *testing.M) { exampletest.Main(m, main) }

// pipes is a listener that accepts the connections of a channel.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	conn, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return conn, nil
}

func (p pipes) Close() error {
	close(p)
	return nil
}

func (p pipes) Addr() net.Addr { return nil }

func TestIdleConnectionsAreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		listener := make(pipes)
		var out exampletest.Output
		served := make(chan error)
		go func() { served <- serve(ctx, listener, 30*time.Second, log.New(&out, "", 0)) }()
		dial := func() (net.Conn, *bufio.Reader) {
			client, server := net.Pipe()
			listener <- server
			return client, bufio.NewReader(client)
		}
		busy, lines := dial()
		idle, nothing := dial()
		other, rest := dial()
		began := time.Now()
		ended := make(chan time.Duration)
		go func() {
			_, err := nothing.ReadString('\n')
			assert.Error(t, err)
			ended <- time.Since(began)
		}()
		for range 2 {
			time.Sleep(20 * time.Second)
			fmt.Fprintln(busy, "hello")
			line, err := lines.ReadString('\n')
			assert.NoError(t, err)
			assert.Equal(t, "hello\n", line)
			if time.Since(began) < 30*time.Second {
				fmt.Fprintln(other, "hi")
				_, err = rest.ReadString('\n')
				assert.NoError(t, err)
			}
		}
		after := <-ended
		assert.GreaterOrEqual(t, after, 30*time.Second)
		assert.LessOrEqual(t, after, 30*time.Second+300*time.Millisecond)

		cancel() // closes the other two
		require.NoError(t, <-served)
		_, err := lines.ReadString('\n')
		assert.Error(t, err)
		assert.Equal(t, "closed an idle connection\nstopped\n", out.String())
		for _, conn := range []net.Conn{busy, idle, other} {
			conn.Close()
		}
	})
}

func TestASignalClosesTheConnections(t *testing.T) {
	p := exampletest.Start(t, "-addr", "127.0.0.1:0")
	_, addr, _ := strings.Cut(p.WaitFor("listening on "), "listening on ")
	conn, err := net.Dial("tcp", addr)
	require.NoError(t, err)
	defer conn.Close()
	fmt.Fprintln(conn, "hello")
	lines := bufio.NewReader(conn)
	line, err := lines.ReadString('\n')
	require.NoError(t, err)
	assert.Equal(t, "hello\n", line)
	assert.Contains(t, p.Terminate(), "stopped\n")
	_, err = lines.ReadString('\n')
	assert.Error(t, err)
}

// BenchmarkIdleTimeout measures what it takes to postpone the timeout of one of 10,000
// connections, in three ways.
func BenchmarkIdleTimeout(b *testing.B) {
	const (
		conns = 10_000
		idle  = time.Minute
	)
	b.Run("wheel", func(b *testing.B) {
		w, err := wheel.New(&wheel.Options{Tick: idle / 100})
		require.NoError(b, err)
		defer w.Close()
		timers := make([]schedule.Timer, conns)
		for i := range timers {
			timers[i], err = schedule.AfterFunc(w, idle, func() {})
			require.NoError(b, err)
		}
		for i := 0; b.Loop(); i++ {
			timers[i%conns].Reset(idle)
		}
	})
	b.Run("AfterFunc", func(b *testing.B) {
		timers := make([]*time.Timer, conns)
		for i := range timers {
			timers[i] = time.AfterFunc(idle, func() {})
			defer timers[i].Stop()
		}
		for i := 0; b.Loop(); i++ {
			timers[i%conns].Reset(idle)
		}
	})
	b.Run("SetReadDeadline", func(b *testing.B) {
		sockets := make([]net.PacketConn, conns)
		for i := range sockets {
			var err error
			sockets[i], err = net.ListenPacket("udp", "127.0.0.1:0")
			require.NoError(b, err)
			defer sockets[i].Close()
		}
		for i := 0; b.Loop(); i++ {
			if err := sockets[i%conns].SetReadDeadline(time.Now().Add(idle)); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// BenchmarkEcho measures a message and its answer on one connection, for comparison.
func BenchmarkEcho(b *testing.B) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(b, err)
	ctx, cancel := context.WithCancel(b.Context())
	served := make(chan error)
	go func() { served <- serve(ctx, listener, time.Minute, log.New(b.Output(), "", 0)) }()
	conn, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(b, err)
	lines := bufio.NewReader(conn)
	for b.Loop() {
		fmt.Fprintln(conn, "hello")
		if _, err := lines.ReadSlice('\n'); err != nil {
			b.Fatal(err)
		}
	}
	conn.Close()
	cancel()
	require.NoError(b, <-served)
}
