package redisnode

import (
	"context"
	"net"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sys/unix"

	"github.com/leasewheel/leasewheel/internal/testredis"
)

// userTimeout returns the TCP_USER_TIMEOUT of a connection.
func userTimeout(t *testing.T, c net.Conn) time.Duration {
	raw, err := c.(*net.TCPConn).SyscallConn()
	require.NoError(t, err)
	var ms int
	require.NoError(t, raw.Control(func(fd uintptr) { ms, err = syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout) }))
	require.NoError(t, err)
	return time.Duration(ms) * time.Millisecond
}

func TestTheUsersTimeoutOfASocketStays(t *testing.T) {
	addr := shared.Server(t).Addr()
	for _, theirs := range []time.Duration{0, 42 * time.Second} {
		c, err := net.Dial("tcp", addr)
		require.NoError(t, err)
		defer c.Close()
		want := 2 * time.Second
		if theirs > 0 {
			noticeDeath(c, theirs)
			want = theirs
		}
		noticeDeath(c, 2*time.Second)
		assert.Equal(t, want, userTimeout(t, c))
	}
}

// command runs a program of the system, or skips the test.
func command(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Skipf("%v: %v: %s", args, err, out)
	}
}

// inNamespace runs f on a thread whose network is that of a namespace. The thread then goes back: if it ended, the
// kernel would kill the servers that it has started.
func inNamespace(t *testing.T, name string, f func() error) {
	t.Helper()
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		done <- func() error {
			own, err := os.Open("/proc/thread-self/ns/net")
			if err != nil {
				return err
			}
			defer own.Close()
			other, err := os.Open("/run/netns/" + name)
			if err != nil {
				return err
			}
			defer other.Close()
			if err := unix.Setns(int(other.Fd()), unix.CLONE_NEWNET); err != nil {
				return err
			}
			err = f()
			if back := unix.Setns(int(own.Fd()), unix.CLONE_NEWNET); back != nil {
				return back // the thread stays locked, and ends
			}
			runtime.UnlockOSThread()
			return err
		}()
	}()
	require.NoError(t, <-done)
}

// A link that is cut without a word is noticed after a third of the timeout, a server that is stopped is not.
func TestTheKernelNoticesACutLink(t *testing.T) {
	near, far := "lw-near", "lw-far"
	command(t, "ip", "netns", "add", near)
	defer exec.Command("ip", "netns", "del", near).Run()
	command(t, "ip", "netns", "add", far)
	defer exec.Command("ip", "netns", "del", far).Run()
	command(t, "ip", "link", "add", "lw0", "netns", near, "type", "veth", "peer", "name", "lw1", "netns", far)
	for i, ns := range []string{near, far} {
		device, addr := []string{"lw0", "lw1"}[i], []string{"10.213.7.1/24", "10.213.7.2/24"}[i]
		command(t, "ip", "-n", ns, "addr", "add", addr, "dev", device)
		command(t, "ip", "-n", ns, "link", "set", device, "up")
	}
	const hardware = "02:00:00:00:00:02" // known for good: a neighbour that is asked for in vain would be an error here
	command(t, "ip", "-n", far, "link", "set", "lw1", "address", hardware)
	command(t, "ip", "-n", near, "neigh", "replace", "10.213.7.2", "lladdr", hardware, "dev", "lw0", "nud", "permanent")
	var stopped atomic.Bool
	w := &testredis.Wire{Answer: func(command []string) string {
		if stopped.Load() {
			time.Sleep(3 * time.Second / 2)
		}
		return "+" + command[len(command)-1] + "\r\n"
	}}
	var l net.Listener
	inNamespace(t, far, func() (err error) {
		l, err = net.Listen("tcp", "10.213.7.2:0")
		return err
	})
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			w.Serve(c)
		}
	}()
	rdb := redis.NewClient(&redis.Options{Addr: l.Addr().String(), Dialer: func(_ context.Context, network, addr string) (c net.Conn, err error) {
		inNamespace(t, near, func() (err error) {
			c, err = net.DialTimeout(network, addr, long)
			return err
		})
		return c, err
	}})
	c := newClient(t, rdb, Options{Timeout: long})
	c.node.timeout = 3 * time.Second // of the kernel: one second
	run := func() Answer {
		require.NoError(t, c.Begin(t.Context()))
		defer c.End()
		key := "k"
		return c.node.Run(t.Context(), echo, time.Now().Add(long), false, []any{nil, nil, 1, &key})
	}
	require.NoError(t, run().Err)

	command(t, "ip", "-n", far, "addr", "del", "10.213.7.2/24", "dev", "lw1") // a device without carrier would be an error here
	began := time.Now()
	a := run()
	require.ErrorIs(t, a.Err, syscall.ETIMEDOUT)
	assert.GreaterOrEqual(t, time.Since(began), time.Second)
	assert.Less(t, time.Since(began), soon)
	assert.False(t, a.Sent.IsZero())
	command(t, "ip", "-n", far, "addr", "add", "10.213.7.2/24", "dev", "lw1")
	require.NoError(t, run().Err)

	stopped.Store(true) // the kernel of the server still acknowledges
	began = time.Now()
	require.NoError(t, run().Err)
	assert.GreaterOrEqual(t, time.Since(began), 3*time.Second/2)

	require.NoError(t, closeClient(c))
	require.NoError(t, rdb.Close())
	require.NoError(t, l.Close())
	w.Wait()
}
