package redisstore

import (
	"bytes"
	"context"
	"errors"
	"net"
	"strconv"
	"syscall"
)

// What a server may send as one reply. go-redis makes room for whatever length a
// server announces, before anything of it has come, and follows arrays to any depth:
// a few bytes of a faulty or hostile server would end the process. The longest reply
// that is asked for is the slots of a cluster, a few megabytes in arrays of arrays of
// arrays.
const (
	maxLine     = 64 << 10 // bytes
	maxBulk     = 4 << 20  // bytes
	maxElements = 64 << 10 // of an array
	maxDepth    = 8        // arrays in arrays
	maxReply    = 16 << 20 // bytes of all of it
)

var errFraming = errors.New("the server sends what is no reply, or one that is too large")

// framed returns a dialer whose connections end at a reply that is out of bounds.
func framed(dial func(context.Context, string, string) (net.Conn, error)) func(context.Context, string, string) (net.Conn, error) {
	return func(ctx context.Context, network, addr string) (net.Conn, error) {
		conn, err := dial(ctx, network, addr)
		if err != nil {
			return nil, err
		}
		if _, ok := conn.(syscall.Conn); ok { // by which go-redis finds out whether it has been closed
			return framedSocket{&framedConn{Conn: conn}}, nil
		}
		return &framedConn{Conn: conn}, nil
	}
}

// framedConn is a connection that passes on replies of RESP 2 within bounds.
type framedConn struct {
	net.Conn
	framing framing // of the one goroutine that reads
}

// Read implements net.Conn.
func (c *framedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if bad := c.framing.take(p[:n]); bad != nil {
		return 0, bad
	}
	return n, err
}

// framedSocket is one over a socket.
type framedSocket struct{ *framedConn }

// SyscallConn implements syscall.Conn.
func (c framedSocket) SyscallConn() (syscall.RawConn, error) {
	return c.Conn.(syscall.Conn).SyscallConn()
}

// framing is how far a stream of replies has been followed.
type framing struct {
	line  []byte // the beginning of one, as far as it has come
	bulk  int    // bytes of a string that are still to come
	open  []int  // elements that are still to come, of each array that is open
	size  int    // bytes of the reply
	wrong bool
}

// take follows the stream through its next bytes. After an error it returns nothing
// else.
func (f *framing) take(p []byte) error {
	for len(p) > 0 && !f.wrong {
		n := f.bulk
		if n == 0 {
			n = bytes.IndexByte(p, '\n') + 1
		}
		if n == 0 || n > len(p) {
			n = len(p)
		}
		f.size += n
		if f.bulk > 0 {
			f.bulk -= n
			if f.bulk == 0 {
				f.complete()
			}
		} else {
			f.wrong = !f.begin(p[:n])
		}
		f.wrong = f.wrong || f.size > maxReply
		p = p[n:]
	}
	if f.wrong {
		return errFraming
	}
	return nil
}

// begin takes a part of a line, and reports whether it may be one.
func (f *framing) begin(part []byte) bool {
	f.line = append(f.line, part...)
	if len(f.line) > maxLine {
		return false
	}
	if part[len(part)-1] != '\n' {
		return true
	}
	line, ok := bytes.CutSuffix(f.line, []byte("\r\n"))
	f.line = f.line[:0]
	return ok && len(line) > 0 && f.header(line[0], line[1:])
}

func (f *framing) header(kind byte, text []byte) bool {
	switch kind {
	case '+', '-', ':':
		f.complete()
		return true
	}
	n, err := strconv.Atoi(string(text))
	switch {
	case err != nil || n < -1:
		return false
	case kind == '$' && n >= 0 && n <= maxBulk:
		f.bulk = n + len("\r\n")
	case kind == '*' && n > 0 && n <= maxElements && len(f.open) < maxDepth:
		f.open = append(f.open, n)
	case kind == '*' && n == 0, (kind == '*' || kind == '$') && n == -1:
		f.complete()
	default:
		return false
	}
	return true
}

// complete notes the end of a value, and of the arrays that end with it.
func (f *framing) complete() {
	for len(f.open) > 0 {
		last := &f.open[len(f.open)-1]
		*last--
		if *last > 0 {
			return
		}
		f.open = f.open[:len(f.open)-1]
	}
	f.size = 0
}
