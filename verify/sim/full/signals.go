// Published messages, and the subscriptions of connections.

package full

import (
	"slices"
	"strings"
	"time"

	rediscommands "github.com/alicebob/miniredis/v2/server"

	"github.com/leasewheel/leasewheel/internal/simrand"
)

// signal is a published message.
type signal struct{ channel, text string }

// subscribe changes the subscriptions of a connection, and returns the reply.
func (c *conn) subscribe(m message) []byte {
	var out []byte
	names := m.args[1:]
	if m.name == "unsubscribe" && len(names) == 0 {
		names = slices.Clone(c.channels)
	}
	for _, name := range names {
		c.channels = slices.DeleteFunc(c.channels, func(other string) bool { return other == name })
		if m.name == "subscribe" && c.open {
			c.channels = append(c.channels, name)
		}
		out = append(out, bytesOf(func(p *rediscommands.Peer) {
			p.WriteLen(3)
			p.WriteBulk(m.name)
			p.WriteBulk(name)
			p.WriteInt(len(c.channels))
		})...)
	}
	return out
}

// publish sends a signal to all subscriptions of its channel. The caller holds World.Mu.
func (s *server) publish(b *backend, sig signal) {
	tag, _, _ := strings.Cut(sig.text, " ")
	owner := b.tags[tag]
	b.overhear(sig)
	b.Counts.Operations["signal"]++
	b.published[owner]++
	for _, c := range b.conns {
		if c.server != s || !slices.Contains(c.channels, sig.channel) {
			continue
		}
		delay, lost := c.signalFate(owner)
		if lost {
			b.Counts.Faults["lost signal"]++
			continue // the client notices the partition by its pings
		}
		if c.stalled {
			continue
		}
		c.send(parcel{at: c.onWay(delay), text: bulks("message", sig.channel, sig.text), awaits: true})
	}
}

// tagOf returns the tag of an owner in signals: the beginning of its digest.
func tagOf(owner string) string { return digestOf(owner)[:16] }

// signalFate returns the delay of a signal to an owner, and whether it is lost. The caller holds World.Mu.
func (c *conn) signalFate(owner string) (delay time.Duration, lost bool) {
	b := c.process.backend
	if b.overrides != nil {
		return b.overrides.signal(), false
	}
	d := simrand.New(b.plan.Seed, 6, uint64(c.process.ID), simrand.Hash(b.Names.Of(owner)), uint64(b.published[owner]))
	delay = latency(d)
	if c.process.isSlow() {
		delay = c.process.Plan.RTT / 2
	}
	switch n := d.IntN(1000); {
	case isCut(c.cutFrom), n < b.plan.net.lostSignal && b.mayFail(c.process):
		return 0, true
	case n >= b.plan.net.lostSignal && n < b.plan.net.lostSignal+b.plan.net.lateSignal:
		b.Counts.Faults["late signal"]++
		delay = d.UpTo(2 * b.plan.TTL)
	}
	return delay, false
}
