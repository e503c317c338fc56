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

	"github.com/leasewheel/leasewheel/internal/testredis"
)

// scriptedServer is a server in a synctest bubble. Its replies to scripts, and what it sends
// after a subscription, are given in advance, byte by byte.
type scriptedServer struct {
	signals []byte // sent after the confirmation of a subscription
	refusal []byte // if set, the answer to each command

	mu      sync.Mutex // guards all below
	scripts int        // that have arrived
	answers [][]byte   // to the next scripts; later scripts get no reply
	given   [][]byte   // the replies since the last call of takeGiven
	conns   []net.Conn
	work    sync.WaitGroup
}

const (
	nextAnswer = 0x1e // separates the replies on a tape
	hangUp     = 0x04 // at the end of a reply: the server closes the connection after it
)

func newScriptedServer(tape, signals []byte) *scriptedServer {
	return &scriptedServer{signals: signals, answers: bytes.Split(tape, []byte{nextAnswer})}
}

// client returns a client of the server, and a function that closes both.
func (p *scriptedServer) client() (*redis.Client, func()) {
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

func (p *scriptedServer) dial(context.Context, string, string) (net.Conn, error) {
	ours, theirs := net.Pipe()
	out := make(chan []byte, 100) // a pipe has no buffer, and go-redis writes a whole pipeline before it reads
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
		for range out { // until read has returned
		}
	})
	return ours, nil
}

func (p *scriptedServer) read(from io.Reader, out chan<- []byte) {
	r := bufio.NewReader(from)
	for {
		command, err := testredis.ReadCommand(r)
		if err != nil {
			return
		}
		if answer := p.answer(command); answer != nil {
			out <- answer
		}
	}
}

func (p *scriptedServer) answer(command []string) []byte {
	name := strings.ToLower(command[0])
	if strings.HasPrefix(name, "eval") {
		p.mu.Lock()
		p.scripts++
		p.mu.Unlock()
	}
	if p.refusal != nil {
		return p.refusal
	}
	switch name {
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

// next returns the reply to the next script, or nil for no reply.
func (p *scriptedServer) next() []byte {
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

// counts returns how many scripts have arrived, and how many connections were made.
func (p *scriptedServer) counts() (scripts, dials int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.scripts, len(p.conns)
}

// takeGiven returns the replies since its last call.
func (p *scriptedServer) takeGiven() [][]byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	given := p.given
	p.given = nil
	return given
}

// frame is a RESP value.
type frame any

// errorReply is a RESP value that begins with '-'.
type errorReply string

// frames returns the complete values at the start of b.
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

// readFrame parses a RESP value as the specification describes it, for the types that the
// scripts of the store return, and a few more.
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
		return errorReply(text), nil
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
