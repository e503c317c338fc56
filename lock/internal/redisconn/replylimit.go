// This file is about the bounds of replies.

package redisconn

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"syscall"
)

// The bounds of one reply. go-redis allocates whatever length a server announces before
// it receives the data, and follows nested arrays to any depth, so that a few bytes of a
// faulty or hostile server would crash the process. The longest reply that the package
// asks for is the slots of a cluster: a few megabytes in arrays of arrays of arrays.
const (
	maxLine     = 64 << 10 // bytes
	maxBulk     = 4 << 20  // bytes
	maxElements = 64 << 10 // of an array
	maxDepth    = 8        // of nested arrays
	maxReply    = 16 << 20 // bytes of the whole reply
)

var errInvalidReply = errors.New("invalid or oversized reply of the server")

// notRedisError is the error of a connection whose first bytes are no reply. It matches
// errInvalidReply.
type notRedisError struct{ first []byte }

// Error implements error.
func (e notRedisError) Error() string {
	return fmt.Sprintf("the server sends %q, which is no reply of Redis; is it a Redis server, and does it expect TLS?", e.first)
}

// Is makes it match errInvalidReply. go-redis would return what Unwrap returns.
func (notRedisError) Is(target error) bool { return target == errInvalidReply }

// maxShown is how many bytes of what is no reply are shown.
const maxShown = 40

// limitReplies wraps a connection so that reading a reply that exceeds the bounds, or is
// not in RESP 2, fails.
func limitReplies(conn net.Conn) net.Conn {
	if _, ok := conn.(syscall.Conn); ok { // go-redis uses it to find out whether the server has closed conn
		return limitedSocket{&limitedConn{Conn: conn}}
	}
	return &limitedConn{Conn: conn}
}

// limitedConn is a connection that returns only replies within the bounds.
type limitedConn struct {
	net.Conn
	scanner replyScanner // only the goroutine that reads uses it
}

// Read implements net.Conn.
func (c *limitedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if invalid := c.scanner.scan(p[:n]); invalid != nil {
		return 0, invalid
	}
	return n, err
}

// limitedSocket is a limitedConn over a socket.
type limitedSocket struct{ *limitedConn }

// SyscallConn implements syscall.Conn.
func (c limitedSocket) SyscallConn() (syscall.RawConn, error) {
	return c.Conn.(syscall.Conn).SyscallConn()
}

// replyScanner checks a stream of replies, which it receives in pieces of any size.
type replyScanner struct {
	line    []byte // the start of an incomplete line
	bulk    int    // missing bytes of a bulk string and its line end
	arrays  []int  // the number of missing elements of each incomplete array, outermost first
	size    int    // bytes of the current reply so far
	invalid bool
	first   []byte // the start of the first line, until a reply is complete
	known   bool   // a reply was complete
}

// scan checks the next piece of the stream. Once it has returned an error, it returns that
// error for every later piece.
func (s *replyScanner) scan(p []byte) error {
	for len(p) > 0 && !s.invalid {
		n := s.bulk
		if n == 0 {
			n = bytes.IndexByte(p, '\n') + 1
		}
		if n == 0 || n > len(p) {
			n = len(p)
		}
		s.size += n
		if s.bulk > 0 {
			s.bulk -= n
			if s.bulk == 0 {
				s.endValue()
			}
		} else {
			s.invalid = !s.scanLine(p[:n])
		}
		s.invalid = s.invalid || s.size > maxReply
		p = p[n:]
	}
	switch {
	case !s.invalid:
		return nil
	case s.known || len(s.first) == 0: // the content may be a secret
		return errInvalidReply
	}
	return notRedisError{s.first}
}

// scanLine scans a piece of a line. It reports false if the line is invalid.
func (s *replyScanner) scanLine(piece []byte) bool {
	s.line = append(s.line, piece...)
	if !s.known && len(s.arrays) == 0 {
		s.first = bytes.TrimSpace(slices.Clone(s.line[:min(len(s.line), maxShown)]))
	}
	if len(s.line) > maxLine || !bytes.ContainsRune([]byte("+-:$*"), rune(s.line[0])) {
		return false
	}
	if piece[len(piece)-1] != '\n' {
		return true
	}
	line, ok := bytes.CutSuffix(s.line, []byte("\r\n"))
	s.line = s.line[:0]
	return ok && len(line) > 0 && s.startValue(line[0], line[1:])
}

// startValue handles a complete line: the type of a value, and its text or length.
func (s *replyScanner) startValue(kind byte, text []byte) bool {
	switch kind {
	case '+', '-', ':':
		s.endValue()
		return true
	}
	n, err := strconv.Atoi(string(text))
	switch {
	case err != nil || n < -1:
		return false
	case kind == '$' && n >= 0 && n <= maxBulk:
		s.bulk = n + len("\r\n")
	case kind == '*' && n > 0 && n <= maxElements && len(s.arrays) < maxDepth:
		s.arrays = append(s.arrays, n)
	case kind == '*' && n == 0, (kind == '*' || kind == '$') && n == -1:
		s.endValue()
	default:
		return false
	}
	return true
}

// endValue ends a value, and the arrays whose last element it is.
func (s *replyScanner) endValue() {
	for len(s.arrays) > 0 {
		last := &s.arrays[len(s.arrays)-1]
		*last--
		if *last > 0 {
			return
		}
		s.arrays = s.arrays[:len(s.arrays)-1]
	}
	s.size = 0
	s.known, s.first = true, nil
}
