// The end of a session, as far as the answered pings show.

package zkstore

import (
	"bytes"
	"context"
	"encoding/binary"
	"net"
	"sync"
	"time"
)

// The leader of the ensemble ends a session when it has not heard of it for the session timeout.
// Other servers report to it which sessions they have heard of only once in a while. So a request may be
// answered, and the session may still end sooner than a session timeout later, if its server dies
// before it has informed the leader. That matters if the client was silent before, because its process
// stood still. A lease is granted or renewed only if it ends before the session can.

// told is the part of the session timeout within which a server reports to the leader that it has
// heard of a session: half a tickTime, if the tickTime is at most a sixth of the timeout, and time
// to spare.
const told = 6

// keptPings is the number of answered pings that a link remembers. The client sends three within
// the session timeout.
const keptPings = 8

// ping is a ping of the client that was answered.
type ping struct{ sent, answered time.Time }

// answered records an answered ping.
func (l *link) answered(p ping) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.pings) == keptPings {
		l.pings = append(l.pings[:0], l.pings[1:]...)
	}
	l.pings = append(l.pings, p)
	l.notify()
}

// end returns an instant before which the session does not end, and the next instant at which
// more will be known, zero if there is none. mu is locked.
func (l *link) end(now time.Time) (end, next time.Time) {
	heard := l.confirmed
	for _, p := range l.pings {
		known := p.answered.Add(l.granted / told)
		if known.After(now) {
			next = known
			break
		}
		if p.sent.After(heard) {
			heard = p.sent
		}
	}
	return heard.Add(l.granted), next
}

// isOver reports whether the session must have ended, and so all leases that it had.
func (l *link) isOver() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	end, _ := l.end(now)
	return l.session != 0 && now.After(end)
}

// lasts returns when it is known that a session lasts until an instant. Mostly that is at once. It
// returns errNewSession if there is another session, and the cause of ctx if that ends.
func (l *link) lasts(ctx context.Context, session int64, until time.Time) error {
	for {
		l.mu.Lock()
		current, changed := l.session, l.changed
		now := time.Now()
		end, next := l.end(now)
		l.mu.Unlock()
		switch {
		case current != session:
			return errNewSession
		case !until.After(end):
			return nil
		}
		var known <-chan time.Time
		if !next.IsZero() {
			known = time.After(next.Sub(now))
		}
		select {
		case <-changed:
		case <-known:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// observed reads what the ZooKeeper client does not report: the session timeout that a server has
// granted, and when pings were sent and answered.
type observed struct {
	net.Conn
	link   *link
	dialed time.Time

	// Only the goroutine that connects, and then writes, uses this.
	wrote bool // the first request

	// Only the goroutine that reads uses these.
	greeted bool   // the first answer was read
	head    []byte // of the answer that is being read
	rest    int    // bytes of the answer after its head

	mu   sync.Mutex  // guards sent
	sent []time.Time // of pings without an answer
}

// Each packet begins with its length, of 4 bytes. Then the first answer has the version of the
// protocol, the timeout in milliseconds, of 4 bytes each, and the session, of 8 bytes. All others,
// and all requests but the first, have a number, which is that of the request.
const (
	firstHead  = 20
	otherHead  = 8
	pingNumber = -2
)

// The first request has the version of the protocol, the last transaction that the client has seen, the
// timeout, the session, and the password of the session after its length.
const (
	seenAt     = 8
	sessionAt  = 20
	passwordAt = 32
	firstSize  = 48
)

// Write implements [net.Conn]. The client writes one packet at a time.
//
// A server refuses a client that has seen later transactions than the server has, for ever if it was
// restored from a backup. After the end of the session these do not matter, so the client asks for a new
// one then, as if it had seen nothing.
func (o *observed) Write(p []byte) (int, error) {
	if !o.wrote && len(p) >= firstSize && o.link.isOver() {
		p = bytes.Clone(p)
		clear(p[seenAt : seenAt+8])
		clear(p[sessionAt : sessionAt+8])
		clear(p[passwordAt:firstSize])
	}
	o.wrote = true
	if len(p) >= otherHead && numberOf(p) == pingNumber {
		o.mu.Lock()
		o.sent = append(o.sent, time.Now())
		o.mu.Unlock()
	}
	n, err := o.Conn.Write(p)
	if err != nil {
		o.link.failed(err)
	}
	return n, err
}

func (o *observed) Read(p []byte) (int, error) {
	n, err := o.Conn.Read(p)
	o.parse(p[:n])
	if err != nil {
		o.link.failed(err)
	}
	return n, err
}

// parse reads the next bytes of the answers.
func (o *observed) parse(p []byte) {
	for len(p) > 0 {
		if o.rest > 0 {
			n := min(o.rest, len(p))
			o.rest -= n
			p = p[n:]
			continue
		}
		size := otherHead
		if !o.greeted {
			size = firstHead
		}
		n := min(size-len(o.head), len(p))
		o.head = append(o.head, p[:n]...)
		p = p[n:]
		if len(o.head) == size {
			o.rest = max(int(binary.BigEndian.Uint32(o.head))+4-size, 0)
			o.headRead()
			o.head = o.head[:0]
		}
	}
}

func (o *observed) headRead() {
	if !o.greeted {
		o.greeted = true
		timeout := time.Duration(binary.BigEndian.Uint32(o.head[8:])) * time.Millisecond
		o.link.hasSession(int64(binary.BigEndian.Uint64(o.head[12:])), timeout, o.dialed) //nolint:gosec // a session is any int64
		return
	}
	if numberOf(o.head) != pingNumber {
		return
	}
	o.mu.Lock()
	if len(o.sent) == 0 {
		o.mu.Unlock()
		return
	}
	sent := o.sent[0]
	o.sent = o.sent[1:]
	o.mu.Unlock()
	o.link.answered(ping{sent, time.Now()})
}

func numberOf(packet []byte) int32 { return int32(binary.BigEndian.Uint32(packet[4:])) } //nolint:gosec // a number is any int32
