package redisconn

import (
	"bytes"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// longAgo is a deadline in the past. Setting it ends a Read or Write that is in progress.
var longAgo = time.Unix(1, 0)

// link is a connection to a node, complete with the handshake.
type link struct {
	net.Conn    // bounds the replies
	trust       *trust
	maxLifetime time.Duration // 0: unlimited
	maxIdleTime time.Duration // 0: unlimited
	madeAt      time.Time     // when the handshake was complete
	noDeadlines bool          // the user's connection does not support deadlines

	// Numbers of requests; see trust.
	dialed   uint64
	lastRead atomic.Uint64

	// A goroutine reads from a spare link to find out whether the server closes it.
	guardDone chan struct{} // closed when the goroutine has ended; nil if there is none
	guardOK   bool          // the goroutine read nothing; valid after guardDone is closed

	// Only the goroutine that uses the link accesses these fields.
	ready      bool   // the handshake is complete
	helloSeen  bool   // go-redis has written its first command after the handshake
	helloReply []byte // what is left to read of the local reply to HELLO
}

// localHelloReply is the reply that a link gives to the HELLO of go-redis. The server has
// already answered the HELLO of the handshake, with the user's credentials.
const localHelloReply = "*2\r\n$5\r\nproto\r\n:2\r\n"

// Write implements net.Conn.
func (l *link) Write(p []byte) (int, error) {
	if l.ready && !l.helloSeen {
		l.helloSeen = true
		if isHello(p) {
			l.helloReply = []byte(localHelloReply)
			return len(p), nil
		}
	}
	return l.Conn.Write(p)
}

// isHello reports whether p is a HELLO command without options, and nothing else.
func isHello(p []byte) bool {
	return bytes.HasPrefix(bytes.ToLower(p[:min(len(p), 14)]), []byte("*2\r\n$5\r\nhello\r")) &&
		bytes.Count(p, []byte("\r\n")) == 5
}

// Read implements net.Conn.
func (l *link) Read(p []byte) (int, error) {
	if len(l.helloReply) > 0 {
		n := copy(p, l.helloReply)
		l.helloReply = l.helloReply[n:]
		return n, nil
	}
	n, err := l.Conn.Read(p)
	if n > 0 {
		l.lastRead.Store(l.trust.latestRequest())
	}
	return n, err
}

// SyscallConn implements syscall.Conn. go-redis calls it before it uses an idle connection,
// to find out whether the server has closed it. If SyscallConn returns an error, go-redis
// drops the connection.
func (l *link) SyscallConn() (syscall.RawConn, error) {
	if !l.isTrusted() {
		return nil, errUntrusted
	}
	if socket, ok := l.Conn.(syscall.Conn); ok {
		return socket.SyscallConn()
	}
	return noSocket{}, nil
}

// isTrusted reports whether the link may carry another request.
func (l *link) isTrusted() bool {
	return l.trust.accepts(l.dialed, l.lastRead.Load()) && !l.isOlderThan(l.maxLifetime)
}

// isOlderThan reports whether the link has reached a maximum age. A maximum of 0 means
// that there is none.
func (l *link) isOlderThan(limit time.Duration) bool {
	return limit > 0 && time.Since(l.madeAt) >= limit
}

// guard starts a goroutine that reads from a spare link until isAlive is called or the
// link is closed. A link without deadlines has no guard, because isAlive could not stop
// it without closing the link.
func (l *link) guard(goroutines *sync.WaitGroup) {
	if l.noDeadlines {
		return
	}
	l.guardDone = make(chan struct{})
	goroutines.Go(func() {
		defer close(l.guardDone)
		var b [1]byte
		n, err := l.Conn.Read(b[:])
		l.guardOK = n == 0 && errors.Is(err, os.ErrDeadlineExceeded)
	})
}

// isAlive stops the guard of a spare link. It reports whether the link may be used and,
// if there was a guard, whether the server has kept it open.
func (l *link) isAlive() bool {
	if l.guardDone != nil {
		if l.SetReadDeadline(longAgo) != nil {
			return false
		}
		<-l.guardDone
		if !l.guardOK || l.SetReadDeadline(time.Time{}) != nil {
			return false
		}
		l.guardDone, l.guardOK = nil, false
	}
	return l.isTrusted() && !l.isOlderThan(l.maxIdleTime)
}

// noSocket is the RawConn of a connection that is not a socket. go-redis learns nothing
// from it.
type noSocket struct{}

// Control implements syscall.RawConn.
func (noSocket) Control(func(uintptr)) error { return nil }

// Read implements syscall.RawConn.
func (noSocket) Read(func(uintptr) bool) error { return nil }

// Write implements syscall.RawConn.
func (noSocket) Write(func(uintptr) bool) error { return nil }

// nopCloseLink is a link that the client of the handshake cannot close.
type nopCloseLink struct{ *link }

// Close implements net.Conn.
func (nopCloseLink) Close() error { return nil }
