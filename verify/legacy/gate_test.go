package legacy

import (
	"bufio"
	"context"
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
		c := &connection{from: p, to: s, inside: inside, back: back, asked: make(chan message, 1000)}
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

	asked       chan message // requests without a reply yet
	dropReplies atomic.Bool  // replies are dropped
}

func (c *connection) close() {
	_ = c.inside.Close()
	_ = c.back.Close()
}

// forwardRequests forwards requests according to their fates.
func (c *connection) forwardRequests() {
	defer c.close()
	in := bufio.NewReader(c.inside)
	for {
		m, err := readMessage(in)
		if err != nil {
			return
		}
		met := c.from.fateOf(c.to.format(m), m.isFromUser())
		if met == delivered && c.to.isDown() {
			met = lost
		}
		switch met {
		case crashed:
			return
		case lost:
			time.AfterFunc(breakAfter, c.close)
			continue
		case delayed:
			c.from.late = append(c.from.late, func() { c.to.execute(c.from, m) })
			time.AfterFunc(breakAfter, c.close)
			continue
		case replyLost:
			c.dropReplies.Store(true)
		case delivered:
		}
		c.to.updateClock(m.isFromUser())
		c.asked <- m
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
		fate := ""
		if c.dropReplies.Load() || c.from.isPartitioned() {
			fate = ", lost"
		}
		if len(m.parts) == 3 && m.parts[0] == "message" {
			if c.from.dropsMessages() {
				fate = ", lost"
			}
			c.from.say("message %q%s", m.parts[2], fate)
		} else if asked := <-c.asked; asked.isFromUser() {
			c.from.say("%s  → %s%s", c.to.format(asked), shortenIDs(m.text), fate)
		}
		if c.dropReplies.Load() {
			return
		}
		if fate != "" {
			continue
		}
		if _, err := c.inside.Write(m.raw); err != nil {
			return
		}
	}
}
