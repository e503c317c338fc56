// The network between a process and a server, and its dialer.

package full

import (
	"context"
	"errors"
	"net"
	"time"

	"github.com/leasewheel/leasewheel/internal/simrand"
)

var (
	errRefused = errors.New("sim: connection refused")
	errNoRoute = errors.New("sim: no answer to the connection request")
)

// link is the network between a process and a server. World.Mu guards the fields that change.
type link struct {
	process *process
	server  *server

	dials   int
	numbers map[string]int // by name and owner: how many messages were sent
	cutTo   time.Time      // a partition blocks requests until then
	cutFrom time.Time      // a partition blocks answers until then
}

// dial makes a connection, as redis.Options.Dialer.
func (k *link) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	p := k.process
	b := p.backend
	b.Mu.Lock()
	k.dials++
	id := k.dials
	d := simrand.New(b.plan.Seed, 10, uint64(p.ID), uint64(k.server.id), uint64(id))
	wait, n, odds := latency(d), d.IntN(1000), b.plan.net
	refused := n < odds.refusedDial && b.mayFail(p)
	hung := !refused && n < odds.refusedDial+odds.hungDial && b.mayFail(p)
	hung = hung || isCut(k.cutTo) || isCut(k.cutFrom)
	b.Mu.Unlock()
	p.block()
	p.Pauser.Await(uint64(id))
	if hung {
		b.Count(b.Counts.Faults, "hung connection request")
		<-ctx.Done()
		return nil, errNoRoute
	}
	select {
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	case <-time.After(wait):
	}
	p.Pauser.Await(uint64(id))
	return k.connect(id, refused)
}

// connect returns a new connection, unless it is refused.
func (k *link) connect(id int, refused bool) (net.Conn, error) {
	b := k.process.backend
	b.Mu.Lock()
	defer b.Mu.Unlock()
	if refused || time.Now().Before(k.server.down) {
		b.Counts.Faults["refused connection"]++
		return nil, errRefused
	}
	local, remote := net.Pipe()
	c := &conn{link: k, id: id, restarts: k.server.restarts, remote: remote, inbox: make(chan parcel, 64), open: true}
	b.conns = append(b.conns, c)
	b.Pending.Go(c.listen)
	b.Pending.Go(c.deliver)
	return pausedConn{local, c}, nil
}

// pausedConn is the client's end of a connection, which is paused with the process. A
// subscription is not paused: go-redis holds a mutex while it writes, and the time of a bubble
// does not advance while a goroutine waits for a mutex.
type pausedConn struct {
	net.Conn
	conn *conn
}

func (c pausedConn) await() {
	if !c.conn.isSub.Load() {
		c.conn.process.Pauser.Await(uint64(c.conn.id))
	}
}

func (c pausedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.await()
	return n, err
}

func (c pausedConn) Write(b []byte) (int, error) {
	c.await()
	return c.Conn.Write(b)
}
