// A connection, on which commands and replies travel.

package full

import (
	"bufio"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"github.com/leasewheel/leasewheel/internal/simrand"
	"github.com/leasewheel/leasewheel/internal/testredis"
	"github.com/leasewheel/leasewheel/verify/sim"
)

// conn is a connection between a client and a server. Bytes travel for some time, in order,
// from one end to the other.
type conn struct {
	*link
	id       int
	restarts int         // the number of restarts of the server before the dial
	isSub    atomic.Bool // the connection has subscriptions
	remote   net.Conn    // the server's end
	inbox    chan parcel // bytes on the way to the client

	// World.Mu guards the fields below.
	open     bool
	stalled  bool // all further bytes are lost, and neither end notices
	arrives  time.Time
	returns  time.Time
	channels []string // its subscriptions
}

// parcel is bytes on the way to a client.
type parcel struct {
	at     time.Time
	text   []byte
	last   bool // the connection breaks after it
	awaits bool // deliver waits for a paused process, because the client's end does not
}

// listen reads what the client sends until it closes its end, or the connection breaks.
func (c *conn) listen() {
	b := c.process.backend
	r := bufio.NewReader(c.remote)
	for {
		args, err := testredis.ReadCommand(r)
		if err != nil {
			b.Mu.Lock()
			b.close(c)
			b.Mu.Unlock()
			return
		}
		b.Mu.Lock()
		c.sent(args)
		b.Mu.Unlock()
	}
}

// close closes both ends of a connection. The caller holds World.Mu.
func (b *backend) close(c *conn) {
	if !c.open {
		return
	}
	c.open = false
	c.channels = nil
	close(c.inbox)
	_ = c.remote.Close()
	b.conns = slices.DeleteFunc(b.conns, func(other *conn) bool { return other == c })
}

// sent schedules the arrival of a command. The caller holds World.Mu.
func (c *conn) sent(args []string) {
	p := c.process
	b := p.backend
	m := c.server.read(args)
	b.tags[tagOf(m.owner)] = m.owner
	about := m.name + " " + b.Names.Of(m.owner)
	if m.owner == "" {
		about = m.name + " on " + string(rune('0'+c.id%10))
	}
	c.numbers[about]++
	m.nth = c.numbers[about]
	b.Counts.Operations[m.name]++
	b.checkSent(p, m)
	f := c.fateOf(m)
	if m.name == "subscribe" {
		c.isSub.Store(true)
	}
	if isCut(c.cutTo) {
		b.Counts.Faults["request in a partition"]++
		if !p.Crashed && simrand.New(b.plan.Seed, 11, simrand.Hash(about), uint64(m.nth)).Chance(500) {
			f.Out += time.Until(c.cutTo) // TCP repeats it until it gets through
		} else {
			c.stalled = true
		}
	}
	if c.stalled {
		return
	}
	if f.LostRequest {
		b.fails(p, m, f)
		c.breaks(f)
		return
	}
	if f.Out > 10*time.Millisecond {
		b.Counts.Faults["late request"]++
	}
	c.arrives = sim.Later(c.arrives.Add(1), time.Now().Add(f.Out))
	at := c.arrives
	b.Pending.Go(func() { c.arrive(m, f, at) })
	if f.Again > 0 && m.owner != "" {
		twice := m
		twice.again = true
		b.Pending.Go(func() { c.arrive(twice, f, at.Add(f.Again)) })
	}
}

// breaks makes a connection stall, or break when the answer would have arrived. The caller
// holds World.Mu.
func (c *conn) breaks(f sim.Fate) {
	c.stalled = true
	if f.Reset {
		b := c.process.backend
		b.After(f.Out+f.Back, func() {
			b.Mu.Lock()
			defer b.Mu.Unlock()
			b.close(c)
		})
	}
}

// arrive executes a command, even if the client has closed its end meanwhile.
func (c *conn) arrive(m message, f sim.Fate, at time.Time) {
	p := c.process
	b := p.backend
	time.Sleep(time.Until(at))
	b.Mu.Lock()
	defer b.Mu.Unlock()
	if !b.reaches(c) {
		return
	}
	if m.again {
		b.Counts.Faults["twice"]++
	}
	answer := b.execute(c, m)
	switch {
	case m.again: // the answer is dropped
	case f.LostReply:
		b.fails(p, m, f)
		c.breaks(f)
	case isCut(c.cutFrom):
		b.Counts.Faults["reply in a partition"]++
		c.stalled = true
	case f.HalfReply:
		b.fails(p, m, f)
		c.stalled = true
		c.send(parcel{at: c.onWay(f.Back), text: answer[:len(answer)/2], last: true})
	default:
		if f.Back > 10*time.Millisecond {
			b.Counts.Faults["slow reply"]++
		}
		c.send(parcel{at: c.onWay(f.Back), text: answer, awaits: c.isSub.Load()})
	}
}

// reaches reports whether a command reaches the server: the server has been up since the
// connection was made. The caller holds World.Mu.
func (b *backend) reaches(c *conn) bool {
	if time.Now().Before(c.server.down) || c.restarts != c.server.restarts {
		b.Counts.Faults["request while down"]++
		return false
	}
	return true
}

// onWay returns when bytes arrive that are sent to the client now. They arrive after all earlier
// bytes. The caller holds World.Mu.
func (c *conn) onWay(d time.Duration) time.Time {
	c.returns = sim.Later(c.returns.Add(1), time.Now().Add(d))
	return c.returns
}

// send queues bytes for deliver. The caller holds World.Mu.
func (c *conn) send(p parcel) {
	if !c.open {
		return
	}
	select {
	case c.inbox <- p:
	default: // the client does not read
		c.stalled = true
	}
}

// deliver writes queued bytes to the client once they have traveled long enough.
func (c *conn) deliver() {
	b := c.process.backend
	for p := range c.inbox {
		time.Sleep(time.Until(p.at))
		if p.awaits {
			c.process.Pauser.Await(uint64(c.id)) // the client's end of a subscription is not paused
		}
		_, err := c.remote.Write(p.text)
		if p.last || err != nil {
			b.Mu.Lock()
			b.close(c)
			b.Mu.Unlock()
		}
	}
}

// isCut reports whether a partition with that end lasts.
func isCut(until time.Time) bool { return time.Now().Before(until) }

// fails counts a failure. The caller holds World.Mu.
func (b *backend) fails(p *process, m message, f sim.Fate) {
	b.Counts.Faults[f.Name]++
	b.Note("p%d %s %s #%d: %s", p.ID, m.name, b.Names.Of(m.owner), m.nth, f.Name)
}
