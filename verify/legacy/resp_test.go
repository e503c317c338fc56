package legacy

import (
	"bufio"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// message is one request or reply of the Redis protocol, in its encoding and as
// readable text.
type message struct {
	raw   []byte
	text  string
	parts []string // elements of an array, as text
}

// readMessage reads one message of RESP 2.
func readMessage(r *bufio.Reader) (message, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return message{}, err
	}
	m := message{raw: []byte(line)}
	rest := strings.TrimSuffix(line[1:], "\r\n")
	switch line[0] {
	case '+', ':':
		m.text = rest
		return m, nil
	case '-':
		m.text = "error " + rest
		return m, nil
	}
	n, err := strconv.Atoi(rest)
	if err != nil {
		return m, fmt.Errorf("not a length: %q", line)
	}
	switch {
	case n < 0:
		m.text = "nil"
		return m, nil
	case line[0] == '$':
		body := make([]byte, n+2)
		_, err = io.ReadFull(r, body)
		m.raw, m.text = append(m.raw, body...), string(body[:n])
		return m, err
	}
	for range n {
		part, err := readMessage(r)
		if err != nil {
			return m, err
		}
		m.raw, m.parts = append(m.raw, part.raw...), append(m.parts, part.text)
	}
	m.text = "[" + strings.Join(m.parts, " ") + "]"
	return m, nil
}

// isFromUser returns false for requests that go-redis sends by itself.
func (m message) isFromUser() bool {
	switch strings.ToUpper(m.parts[0]) {
	case "HELLO", "PING":
		return false
	}
	return true
}
