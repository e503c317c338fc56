// TCP_USER_TIMEOUT: the kernel finds dead peers.

package redisnode

import (
	"net"
	"syscall"
	"time"
)

const (
	tcpUserTimeout = 0x12 // package syscall lacks it

	// keepAliveIdle is how long a connection is idle before the kernel asks whether the peer is alive.
	keepAliveIdle = 15 * time.Second
)

// noticeDeath makes the kernel end a connection whose peer acknowledges nothing for the given time. It does
// nothing if the user has set such a time, or if there is no TCP below the connection.
func noticeDeath(c net.Conn, after time.Duration) {
	for {
		outer, ok := c.(interface{ NetConn() net.Conn }) // of package tls
		if !ok {
			break
		}
		c = outer.NetConn()
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	ours := false
	_ = raw.Control(func(fd uintptr) {
		if set, err := syscall.GetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout); err == nil && set == 0 {
			ours = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, tcpUserTimeout, int(after.Milliseconds())) == nil
		}
	})
	if ours {
		_ = tcp.SetKeepAliveConfig(net.KeepAliveConfig{Enable: true, Idle: keepAliveIdle, Interval: after, Count: 1})
	}
}
