package redisstore

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"

	"github.com/redis/go-redis/v9"
)

// poison is a server within a bubble. What it answers to scripts, and what it sends
// to those who subscribe, is written down before, byte by byte.
type poison struct {
	signals []byte // follow the confirmation of a subscription

	mu      sync.Mutex // guards all below
	answers [][]byte   // to the scripts that are still to come, silence after them
	given   [][]byte   // to those that came since they were forgotten
	conns   []net.Conn
	work    sync.WaitGroup
}

const (
	nextAnswer = 0x1e // parts the answers on a tape
	hangUp     = 0x04 // at the end of an answer: the connection ends with it
)

func newPoison(tape, signals []byte) *poison {
	return &poison{signals: signals, answers: bytes.Split(tape, []byte{nextAnswer})}
}

// client returns a client of the server, and what ends both.
func (p *poison) client() (*redis.Client, func()) {
	rdb := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1", Dialer: p.dial})
	return rdb, func() {
		rdb.Close()
		p.mu.Lock()
		for _, c := range p.conns {
			c.Close()
		}
		p.mu.Unlock()
		p.work.Wait()
	}
}

func (p *poison) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	out := make(chan []byte, 100) // a pipe holds nothing, and pipelines are written before they are read
	p.mu.Lock()
	p.conns = append(p.conns, theirs)
	p.mu.Unlock()
	p.work.Go(func() {
		defer close(out)
		p.read(theirs, out)
	})
	p.work.Go(func() {
		defer theirs.Close()
		for answer := range out {
			text, over := bytes.CutSuffix(answer, []byte{hangUp})
			if _, err := theirs.Write(text); err != nil || over {
				break
			}
		}
		theirs.Close()
		for range out { // until the reader has noticed
		}
	})
	return ours, nil
}

func (p *poison) read(from io.Reader, out chan<- []byte) {
	r := bufio.NewReader(from)
	for {
		command, err := readCommand(r)
		if err != nil {
			return
		}
		if answer := p.answer(command); answer != nil {
			out <- answer
		}
	}
}

func (p *poison) answer(command []string) []byte {
	switch name := strings.ToLower(command[0]); name {
	case "eval", "evalsha":
		return p.next()
	case "subscribe":
		channel := command[1]
		on := "*3\r\n$9\r\nsubscribe\r\n$" + strconv.Itoa(len(channel)) + "\r\n" + channel + "\r\n:1\r\n"
		return append([]byte(on), p.signals...)
	case "ping":
		return []byte("*2\r\n$4\r\npong\r\n$0\r\n\r\n")
	default:
		return []byte("-ERR unknown command\r\n")
	}
}

// next returns what the next script is answered, nil for silence.
func (p *poison) next() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.answers) == 0 {
		return nil
	}
	answer := p.answers[0]
	p.answers = p.answers[1:]
	p.given = append(p.given, answer)
	return answer
}

// forget returns what was answered since it was asked last.
func (p *poison) forget() [][]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	given := p.given
	p.given = nil
	return given
}

// frame is a value of RESP as the server has sent it.
type frame any

// refusal is one that begins with '-'.
type refusal string

// frames reads all whole values that some bytes begin with.
func frames(b []byte) (all []frame) {
	for {
		v, rest, ok := firstFrame(b)
		if !ok {
			return all
		}
		all, b = append(all, v), rest
	}
}

func firstFrame(b []byte) (v frame, rest []byte, ok bool) {
	from := bytes.NewReader(b)
	r := bufio.NewReader(from)
	v, err := readFrame(r)
	if err != nil {
		return nil, b, false
	}
	return v, b[len(b)-from.Len()-r.Buffered():], true
}

// readFrame is written after the specification of RESP, for answers of all that
// this store's scripts may give, and a little more.
func readFrame(r *bufio.Reader) (frame, error) {
	line, err := r.ReadString('\n')
	if err != nil || len(line) < 3 || line[len(line)-2] != '\r' {
		return nil, io.ErrUnexpectedEOF
	}
	kind, text := line[0], line[1:len(line)-2]
	switch kind {
	case '+':
		return text, nil
	case '-':
		return refusal(text), nil
	case ':':
		return strconv.ParseInt(text, 10, 64)
	}
	n, err := strconv.Atoi(text)
	if err != nil || n > 1<<20 {
		return nil, io.ErrUnexpectedEOF
	}
	switch {
	case n == -1:
		return nil, nil //nolint:nilnil // the value is nil
	case kind == '$' && n >= 0:
		bulk := make([]byte, n+2)
		_, err := io.ReadFull(r, bulk)
		return string(bulk[:n]), err
	case kind == '*' && n >= 0:
		var items []frame
		for range n {
			item, err := readFrame(r)
			if err != nil {
				return nil, err
			}
			items = append(items, item)
		}
		return items, nil
	}
	return nil, io.ErrUnexpectedEOF
}
