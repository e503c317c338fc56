package whole

import (
	"context"
	"errors"
	"net"
	"runtime"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/verify/chance"
	"github.com/leasewheel/leasewheel/verify/still"
)

var (
	errRefused = errors.New("whole: connection refused")
	errNoRoute = errors.New("whole: no answer to the connection request")
)

// link is the way from a process to a server. The world's mu guards what may change.
type link struct {
	process *process
	server  *server

	dials   int
	numbers map[string]int // of messages, by what they are about
	cutTo   time.Time      // until then no request gets to the server
	cutFrom time.Time      // until then no answer comes from it
}

// dial makes a connection, as redis.Options.Dialer.
func (k *link) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	p := k.process
	w := p.world
	w.mu.Lock()
	k.dials++
	id := k.dials
	d := chance.New(w.plan.seed, 10, uint64(p.id), uint64(k.server.id), uint64(id))
	wait, n, odds := latency(d), d.IntN(1000), w.plan.net
	refused := n < odds.refusedDial && w.mayFail(p)
	hung := !refused && n < odds.refusedDial+odds.hungDial && w.mayFail(p)
	hung = hung || isCut(k.cutTo) || isCut(k.cutFrom)
	w.mu.Unlock()
	if forSubscription() {
		return k.connect(id, refused || hung, true)
	}
	p.gate.Pass(uint64(id))
	if hung {
		w.count(w.counts.Faults, "hung connection request")
		<-ctx.Done()
		return nil, errNoRoute
	}
	if !sleepUntil(time.Now().Add(wait), ctx.Done()) {
		return nil, context.Cause(ctx)
	}
	p.gate.Pass(uint64(id))
	return k.connect(id, refused, false)
}

// forSubscription tells whether a PubSub of go-redis dials. It has a mutex meanwhile,
// for which others of its methods wait, and while anybody waits for a mutex the time
// of a bubble stands still. So that must take none.
func forSubscription() bool {
	var callers [24]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(2, callers[:])])
	for {
		frame, more := frames.Next()
		if strings.Contains(frame.Function, "(*PubSub)") {
			return true
		}
		if !more {
			return false
		}
	}
}

// connect returns a new line, unless it is refused.
func (k *link) connect(id int, refused, ear bool) (net.Conn, error) {
	w := k.process.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if refused || time.Now().Before(k.server.down) {
		w.counts.Faults["refused connection"]++
		return nil, errRefused
	}
	near, far := net.Pipe()
	l := &line{link: k, id: id, restarts: k.server.restarts, ear: ear, far: far, down: make(chan parcel, 64), open: true}
	w.lines = append(w.lines, l)
	w.traveling.Go(l.listen)
	w.traveling.Go(l.deliver)
	if ear {
		return near, nil
	}
	return gatedConn{near, k.process.gate, uint64(id)}, nil
}

// gatedConn is the client's end: the process can stand still.
type gatedConn struct {
	net.Conn
	gate *still.Gate
	id   uint64
}

func (c gatedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.gate.Pass(c.id)
	return n, err
}

func (c gatedConn) Write(b []byte) (int, error) {
	c.gate.Pass(c.id)
	return c.Conn.Write(b)
}
