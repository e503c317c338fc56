package legacy

import (
	"bufio"
	"context"
	"io"
	"net"
	"sync/atomic"
	"time"
)

// breakAfter is the time after which a connection breaks if a request on it gets no
// answer.
const breakAfter = 3 * time.Second

// dial returns a dialer that connects the process to the server through a proxy.
func (p *process) dial(s *server) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		back, err := s.redis.Dial()
		if err != nil {
			return nil, err
		}
		front, inside := net.Pipe()
		c := &connection{from: p, to: s, inside: inside, back: back, asked: make(chan sent, 1000)}
		if !p.add(c) {
			c.close() // go-redis would repeat a failed dial forever
		}
		go c.forwardRequests()
		go c.forwardReplies()
		return socket{front}, nil
	}
}

// socket accepts deadlines after its peer has closed, like TCP and unlike a pipe.
type socket struct{ net.Conn }

func (s socket) SetDeadline(t time.Time) error      { _ = s.Conn.SetDeadline(t); return nil }
func (s socket) SetReadDeadline(t time.Time) error  { _ = s.Conn.SetReadDeadline(t); return nil }
func (s socket) SetWriteDeadline(t time.Time) error { _ = s.Conn.SetWriteDeadline(t); return nil }

// connection is a proxy between a process and a server.
type connection struct {
	from         *process
	to           *server
	inside, back net.Conn

	asked       chan sent   // requests without a reply yet
	dropReplies atomic.Bool // replies are dropped
}

// sent is a request on a connection.
type sent struct {
	message
	note *note
}

// hooks decide what happens to the messages of a process.
type hooks interface {
	// sends returns when a request arrives at the server, with its fate.
	sends(s *server, m message) (fate, *note)
	// executed is called after the server has executed a request.
	executed(s *server, n *note, answer message)
	// receives returns when an answer, or a published message without a note, arrives at the process. It
	// returns false if it is lost.
	receives(s *server, n *note, isLost bool) bool
}

func (c *connection) close() {
	_ = c.inside.Close()
	_ = c.back.Close()
}

// forwardRequests forwards requests according to their fates.
func (c *connection) forwardRequests() {
	defer c.close()
	read := queued(bufio.NewReader(c.inside))
	for {
		m, err := read()
		if err != nil {
			return
		}
		met, n := c.from.hooks.sends(c.to, m)
		switch met {
		case crashed:
			return
		case lost:
			time.AfterFunc(breakAfter, c.close)
			continue
		case replyLost:
			c.dropReplies.Store(true)
		case delivered:
		}
		c.to.updateClock()
		c.asked <- sent{m, n}
		if _, err := c.back.Write(m.raw); err != nil {
			return
		}
	}
}

// forwardReplies forwards replies and published messages.
func (c *connection) forwardReplies() {
	defer c.close()
	out := bufio.NewReader(c.back)
	for {
		m, err := readMessage(out)
		if err != nil {
			return
		}
		if c.answer(m) {
			return
		}
	}
}

// queued returns a function that returns the messages of a reader. It reads ahead, because a writer that waits may
// hold a mutex of go-redis, and simulated time stands still while a goroutine waits for a mutex.
func queued(in *bufio.Reader) func() (message, error) {
	messages := make(chan message, 1000)
	go func() {
		defer close(messages)
		for {
			m, err := readMessage(in)
			if err != nil {
				return
			}
			messages <- m
		}
	}()
	return func() (message, error) {
		m, ok := <-messages
		if !ok {
			return message{}, io.EOF
		}
		return m, nil
	}
}

// answer forwards an answer or a published message. It returns true if the connection is broken.
func (c *connection) answer(m message) bool {
	var n *note
	if len(m.parts) != 3 || m.parts[0] != "message" {
		n = (<-c.asked).note
		c.from.hooks.executed(c.to, n, m)
	}
	if !c.from.hooks.receives(c.to, n, c.dropReplies.Load()) {
		time.AfterFunc(breakAfter, c.close)
		return c.dropReplies.Load()
	}
	_, err := c.inside.Write(m.raw)
	return err != nil
}
