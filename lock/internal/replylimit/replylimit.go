// Package replylimit checks the RESP 2 replies of a server before go-redis reads them. No reply can then crash
// the process or use memory without bound.
package replylimit

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
)

// The bounds of one reply. go-redis allocates whatever length a server announces before
// it receives the data, and follows nested arrays to any depth, so that a few bytes of a
// faulty or hostile server would crash the process. The longest reply that a store
// asks for is the slots of a cluster: a few megabytes in arrays of arrays of arrays.
const (
	maxLine     = 64 << 10 // bytes
	maxBulk     = 4 << 20  // bytes
	maxElements = 64 << 10 // of an array
	maxDepth    = 8        // of nested arrays
	maxReply    = 16 << 20 // bytes of the whole reply
)

// ErrInvalid matches the errors of Scan: the stream is not RESP 2, or a reply exceeds a bound.
var ErrInvalid = errors.New("invalid or oversized reply of the server")

// notRedisError is the error of a connection whose first bytes are no reply. It matches
// ErrInvalid.
type notRedisError struct{ first []byte }

// Error implements error.
func (e notRedisError) Error() string {
	return fmt.Sprintf("the server sends %q, which is no reply of Redis; is it a Redis server, and does it expect TLS?", e.first)
}

// Is makes it match ErrInvalid. go-redis would return what Unwrap returns.
func (notRedisError) Is(target error) bool { return target == ErrInvalid }

// maxShown is how many bytes of what is no reply are shown.
const maxShown = 40

// Scanner checks a stream of replies, which it receives in pieces of any size. The zero Scanner is ready for
// use. A Scanner is not safe for concurrent use.
type Scanner struct {
	line    []byte // the start of an incomplete line
	bulk    int    // missing bytes of a bulk string and its line end
	arrays  []int  // the number of missing elements of each incomplete array, outermost first
	size    int    // bytes of the current reply so far
	invalid bool
	first   []byte // the start of the first line, until a reply is complete
	known   bool   // a reply was complete
}

// Scan checks the next piece of the stream. Its errors match ErrInvalid. Once it has returned an error, it returns
// that error for every later piece.
func (s *Scanner) Scan(p []byte) error {
	for len(p) > 0 && !s.invalid {
		n := s.bulk
		if n == 0 {
			n = bytes.IndexByte(p, '\n') + 1
		}
		if n == 0 || n > len(p) {
			n = len(p)
		}
		s.size += n
		ended, valid := s.bulk == n, true
		if s.bulk > 0 {
			s.bulk -= n
		} else {
			ended, valid = s.scanLine(p[:n])
		}
		for last := len(s.arrays) - 1; ended && last >= 0; last-- { // a value may be the last element
			s.arrays[last]--
			if ended = s.arrays[last] == 0; ended {
				s.arrays = s.arrays[:last]
			}
		}
		if ended {
			s.size, s.known, s.first = 0, true, nil
		}
		s.invalid = !valid || s.size > maxReply
		p = p[n:]
	}
	switch {
	case !s.invalid:
		return nil
	case s.known || len(s.first) == 0: // the content may be a secret
		return ErrInvalid
	}
	return notRedisError{s.first}
}

// scanLine scans a piece of a line, which has the type of a value, and its text or length. It reports
// whether the line ends the value, and whether it is valid.
func (s *Scanner) scanLine(piece []byte) (ended, valid bool) {
	s.line = append(s.line, piece...)
	if !s.known && len(s.arrays) == 0 {
		s.first = bytes.TrimSpace(slices.Clone(s.line[:min(len(s.line), maxShown)]))
	}
	kind := s.line[0]
	if len(s.line) > maxLine || bytes.IndexByte([]byte("+-:$*"), kind) < 0 {
		return false, false
	}
	if piece[len(piece)-1] != '\n' {
		return false, true
	}
	text, complete := bytes.CutSuffix(s.line[1:], []byte("\r\n"))
	s.line = s.line[:0]
	if !complete || kind != '$' && kind != '*' {
		return complete, complete
	}
	n, err := strconv.Atoi(string(text))
	switch {
	case err != nil:
		return false, false
	case n == -1, n == 0 && kind == '*':
		return true, true
	case n >= 0 && n <= maxBulk && kind == '$':
		s.bulk = n + len("\r\n")
		return false, true
	case n > 0 && n <= maxElements && kind == '*' && len(s.arrays) < maxDepth:
		s.arrays = append(s.arrays, n)
		return false, true
	}
	return false, false
}
