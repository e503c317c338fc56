package history

import (
	"bufio"
	"context"
	"net"
	"sync/atomic"
	"time"
)

// patience is after how long the sender of a request that gets no answer finds its
// connection broken.
const patience = 3 * time.Second

// dial connects a process with a server, through the gate.
func (p *process) dial(s *server) func(context.Context, string, string) (net.Conn, error) {
	return func(context.Context, string, string) (net.Conn, error) {
		back, err := s.redis.Dial()
		if err != nil {
			return nil, err
		}
		front, inside := net.Pipe()
		c := &connection{from: p, to: s, inside: inside, back: back, asked: make(chan message, 1000)}
		if !p.add(c) {
			c.close() // a dial that fails would be repeated by go-redis for ever
		}
		go c.up()
		go c.down()
		return socket{front}, nil
	}
}

// socket takes deadlines after its peer has closed, as TCP does and a pipe does not.
type socket struct{ net.Conn }

func (s socket) SetDeadline(t time.Time) error      { _ = s.Conn.SetDeadline(t); return nil }
func (s socket) SetReadDeadline(t time.Time) error  { _ = s.Conn.SetReadDeadline(t); return nil }
func (s socket) SetWriteDeadline(t time.Time) error { _ = s.Conn.SetWriteDeadline(t); return nil }

// connection passes on what a process and a server send each other.
type connection struct {
	from         *process
	to           *server
	inside, back net.Conn

	asked chan message // requests whose replies are on their way
	mute  atomic.Bool  // replies are lost
}

func (c *connection) close() {
	_ = c.inside.Close()
	_ = c.back.Close()
}

// up passes requests on, each as is its fate.
func (c *connection) up() {
	defer c.close()
	in := bufio.NewReader(c.inside)
	for {
		m, err := readMessage(in)
		if err != nil {
			return
		}
		met := c.from.meet(c.to.shown(m), m.isOurs())
		if met == arrives && c.to.isDown() {
			met = isLost
		}
		switch met {
		case crashes:
			return
		case isLost:
			time.AfterFunc(patience, c.close)
			continue
		case isLate:
			c.from.late = append(c.from.late, func() { c.to.execute(c.from, m) })
			time.AfterFunc(patience, c.close)
			continue
		case losesReply:
			c.mute.Store(true)
		case arrives:
		}
		c.to.tick(m.isOurs())
		c.asked <- m
		if _, err := c.back.Write(m.raw); err != nil {
			return
		}
	}
}

// down passes replies on, and messages that were published.
func (c *connection) down() {
	defer c.close()
	out := bufio.NewReader(c.back)
	for {
		m, err := readMessage(out)
		if err != nil {
			return
		}
		fate := ""
		if c.mute.Load() || c.from.isCut() {
			fate = ", which is lost"
		}
		if len(m.parts) == 3 && m.parts[0] == "message" {
			if c.from.isDeaf() {
				fate = ", no: the message is lost"
			}
			c.from.say("hears %q%s", m.parts[2], fate)
		} else if asked := <-c.asked; asked.isOurs() {
			c.from.say("%s  → %s%s", c.to.shown(asked), short(m.text), fate)
		}
		if c.mute.Load() {
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
