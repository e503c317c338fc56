// A link from a synctest bubble to a real server.

package testredis

import (
	"bufio"
	"context"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Link connects clients in a synctest bubble to a real server. The server answers within an
// instant of the bubble, and the link delays each answer by the clock of the bubble. So tests of
// slow links do not depend on the speed of the machine. Keys expire by the clock of the server,
// which is not that of the bubble.
type Link struct {
	addr  string
	conns sync.WaitGroup

	mu       sync.Mutex // guards all below
	delay    time.Duration
	accepted int
	open     map[net.Conn]bool // true: forgotten; see Blackhole
}

// NewLink returns a link to a server, without delay.
func NewLink(s *Server) *Link {
	return &Link{addr: s.Addr(), open: make(map[net.Conn]bool)}
}

// Delay delays each answer by d from now on. Later answers of a connection do not overtake
// earlier ones.
func (l *Link) Delay(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = d
}

// Blackhole drops what comes over the connections that are open, like a firewall that has forgotten them. New
// ones work.
func (l *Link) Blackhole() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for c := range l.open {
		l.open[c] = true
	}
}

// Accepted returns how many connections were made.
func (l *Link) Accepted() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.accepted
}

// Reset breaks all connections. New ones work.
func (l *Link) Reset() {
	l.mu.Lock()
	var broken []net.Conn
	for c := range l.open {
		broken = append(broken, c)
	}
	clear(l.open)
	l.mu.Unlock()
	for _, c := range broken {
		_ = c.Close()
	}
}

// Close breaks all connections and waits until the goroutines of the link have ended.
func (l *Link) Close() {
	l.Reset()
	l.conns.Wait()
}

// Dial is a Dialer of redis.Options.
func (l *Link) Dial(ctx context.Context, network, _ string) (net.Conn, error) {
	server, err := new(net.Dialer).DialContext(ctx, network, l.addr)
	if err != nil {
		return nil, err
	}
	client, end := net.Pipe()
	l.mu.Lock()
	l.open[end] = false
	l.accepted++
	l.mu.Unlock()
	answers := make(chan answer, 1024)
	l.conns.Go(func() {
		defer close(answers)
		l.ask(end, server, answers)
	})
	l.conns.Go(func() {
		deliver(end, answers)
		l.mu.Lock()
		delete(l.open, end)
		l.mu.Unlock()
	})
	return client, nil
}

// answer is what the server has answered, and when the client gets it.
type answer struct {
	due  time.Time
	text string
}

// ask sends each command of a client to the server and reads the answer at once. It ends with
// the client's connection.
func (l *Link) ask(client, server net.Conn, answers chan<- answer) {
	defer func() { _ = server.Close() }()
	commands, replies := bufio.NewReader(client), bufio.NewReader(server)
	for {
		command, err := ReadCommand(commands)
		if err != nil {
			return
		}
		l.mu.Lock()
		forgotten := l.open[client]
		l.mu.Unlock()
		if forgotten {
			continue
		}
		var b strings.Builder
		b.WriteString("*" + strconv.Itoa(len(command)) + "\r\n")
		for _, arg := range command {
			b.WriteString("$" + strconv.Itoa(len(arg)) + "\r\n" + arg + "\r\n")
		}
		if _, err := io.WriteString(server, b.String()); err != nil {
			return
		}
		var reply strings.Builder
		if err := copyReply(&reply, replies); err != nil {
			return
		}
		l.mu.Lock()
		due := time.Now().Add(l.delay)
		l.mu.Unlock()
		answers <- answer{due, reply.String()}
	}
}

// deliver writes each answer when it is due, and closes the connection after the last.
func deliver(client net.Conn, answers <-chan answer) {
	for a := range answers {
		time.Sleep(time.Until(a.due))
		_, _ = io.WriteString(client, a.text) // ask ends if the connection is closed
	}
	_ = client.Close()
}

// copyReply copies one reply of RESP2 or RESP3.
func copyReply(to *strings.Builder, from *bufio.Reader) error {
	line, err := from.ReadString('\n')
	if err != nil {
		return err
	}
	to.WriteString(line)
	kind, rest := line[0], strings.TrimSpace(line[1:])
	if !strings.ContainsRune("$=!*~>%|", rune(kind)) {
		return nil
	}
	n, err := strconv.Atoi(rest)
	if err != nil {
		return err
	}
	switch kind {
	case '$', '=', '!': // text of n bytes, or null
		if n < 0 {
			return nil
		}
		_, err := io.CopyN(to, from, int64(n)+2)
		return err
	case '%', '|': // pairs
		n *= 2
	}
	for range n {
		if err := copyReply(to, from); err != nil {
			return err
		}
	}
	return nil
}
