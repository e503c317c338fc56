// The standard streams: stderr, which nothing waits for, stdout, whose errors set the exit status, and the
// escapes that keep foreign text from controlling a terminal.

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
	"unicode/utf8"
)

const (
	maxQueued    = 256 << 10       // bytes of messages that stderr has not taken
	printTimeout = 2 * time.Second // for stderr to take the last messages
)

// streams are the standard streams of the program.
type streams struct {
	in  *os.File
	out *stdout
	err *stderr
}

// standardStreams returns the streams of this process.
func standardStreams() streams {
	return streams{os.Stdin, &stdout{File: os.Stdout}, &stderr{File: os.Stderr}}
}

// stdout is stdout. It keeps its first error.
type stdout struct {
	*os.File

	mu  sync.Mutex // guards err
	err error
}

// Write implements io.Writer. It escapes control characters, because states and reports quote servers.
func (o *stdout) Write(p []byte) (int, error) {
	err := error(syscall.EBADF)
	if !wasClosed(o.File) {
		_, err = o.WriteString(printable(string(p)))
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = err
	}
	if err != nil {
		return 0, err
	}
	return len(p), nil
}

// failed returns the first error.
func (o *stdout) failed() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.err
}

// stderr is for the messages of the program. A terminal with Ctrl-S or a pipe that nobody reads can block a write for
// ever, so a Write only queues its text. One goroutine, which exists while there is text, prints it. A text that does not fit is
// dropped.
type stderr struct {
	*os.File

	mu     sync.Mutex // guards all below
	queue  []string
	size   int           // of the queue, in bytes
	closed chan struct{} // of the goroutine, closed at its end; nil if there is none
}

// Write implements io.Writer. It escapes control characters, because errors quote servers. It returns no error.
func (m *stderr) Write(p []byte) (int, error) {
	text := printable(string(p))
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.size+len(text) > maxQueued {
		return len(p), nil
	}
	m.queue, m.size = append(m.queue, text), m.size+len(text)
	if m.closed == nil {
		m.closed = make(chan struct{})
		go m.print(m.closed)
	}
	return len(p), nil
}

// print prints the queue.
func (m *stderr) print(closed chan struct{}) {
	defer close(closed)
	for {
		m.mu.Lock()
		if len(m.queue) == 0 {
			m.closed = nil
			m.mu.Unlock()
			return
		}
		text := m.queue[0]
		m.queue, m.size = m.queue[1:], m.size-len(text)
		m.mu.Unlock()
		_, _ = m.WriteString(text)
	}
}

// flush waits until all messages are printed, at most for the given time.
func (m *stderr) flush(atMost time.Duration) {
	m.mu.Lock()
	closed := m.closed
	m.mu.Unlock()
	if closed == nil {
		return
	}
	select {
	case <-closed:
	case <-time.After(atMost):
	}
}

// finish returns the status after the last output: that of the command, unless its output is incomplete.
func (s streams) finish(code int) int {
	err := s.out.failed()
	switch {
	case code != 0 || err == nil:
	case errors.Is(err, syscall.EPIPE): // as in: leasewheel ls | head -1
		code = -int(syscall.SIGPIPE)
	default:
		code = fail(s, fmt.Errorf("the output is incomplete: %w", err))
	}
	s.err.flush(printTimeout)
	return code
}

// printable returns the text with escapes, as in a string of Go, for all that could control a terminal. Line feeds and tabs stay.
func printable(text string) string {
	if !strings.ContainsFunc(text, isControl) && utf8.ValidString(text) {
		return text
	}
	var b strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if isControl(r) || r == utf8.RuneError && size == 1 {
			quoted := strconv.Quote(text[:size])
			b.WriteString(quoted[1 : len(quoted)-1])
		} else {
			b.WriteString(text[:size])
		}
		text = text[size:]
	}
	return b.String()
}

func isControl(r rune) bool { return !strconv.IsPrint(r) && r != '\n' && r != '\t' }

// whileNot calls f on a goroutine of its own and returns its error. If ctx ends first, it returns the cause, and f goes on alone.
func whileNot(ctx context.Context, f func() error) error {
	ended := make(chan error, 1)
	go func() { ended <- f() }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}
