// The faults of this backend: connections, servers, data and forged messages.

package full

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/internal/simrand"
	"github.com/leasewheel/leasewheel/verify/sim"
)

const (
	partition   sim.Event = "partition"
	oneWay      sim.Event = "one-way partition"
	killed      sim.Event = "connections killed"
	killedSubs  sim.Event = "subscriptions killed"
	down        sim.Event = "server restarted"
	wipe        sim.Event = "restarted without data"
	failOver    sim.Event = "fell back to a copy"
	loading     sim.Event = "loading"
	busy        sim.Event = "busy"
	readOnly    sim.Event = "read-only"
	outOfMemory sim.Event = "out of memory"
	scriptFlush sim.Event = "scripts flushed"
	deleteKey   sim.Event = "delete"
	otherType   sim.Event = "other type"
	serverAhead sim.Event = "server clock ahead"
	serverBack  sim.Event = "server clock back"
	crash       sim.Event = "crash"

	dropAll    sim.Event = "connections dropped in silence"
	forge      sim.Event = "forged messages"
	loseCopies sim.Event = "copies lost"
	slowDials  sim.Event = "slow dials"
)

var eventsOf = [wideEnd][]sim.Event{
	external: {deleteKey, otherType},
	network:  {partition, oneWay, killed, killedSubs},
	pauses:   {sim.Pause},
	drift:    {sim.Pause},
	trouble:  {loading, busy, readOnly, outOfMemory, scriptFlush, down, killed},
	dataLoss: {down, wipe, failOver},
	clocks:   {serverAhead, serverBack},
	endings:  {sim.CloseClient, crash, sim.Pause},
	everything: {
		partition, oneWay, killed, killedSubs, sim.Pause, deleteKey, otherType, loading, busy, readOnly, outOfMemory,
		scriptFlush, down, wipe, failOver, serverAhead, sim.CloseClient,
	},
	silentDrops: {dropAll},
	forgery:     {forge},
	lostCopies:  {loseCopies},
	noMemory:    {outOfMemory},
	slowDialers: {slowDials, slowDials, killed, killed, sim.CloseClient},
	keeping:     {partition, oneWay, killed, sim.Pause, sim.CloseClient},
}

func (b *backend) Inject(e sim.Event, d simrand.Rand) {
	p := simrand.Pick(d, b.procs...)
	s := simrand.Pick(d, b.servers...)
	key := simrand.Pick(d, b.plan.Names()...)
	span := d.UpTo(b.plan.TTL * 3 / 2)
	b.Mu.Lock()
	defer b.Mu.Unlock()
	b.Note("%s of p%d, %s for %v", e, p.ID, key, span)
	b.Counts.Faults[string(e)]++
	if !b.CommonFault(e, p.Process, span) && !b.networkFails(e, p, s, span) {
		b.serverFails(e, s, key, span, d)
	}
	b.observeAll()
}

// networkFails injects a fault of connections, or returns false.
func (b *backend) networkFails(e sim.Event, p *process, s *server, span time.Duration) bool {
	k := p.links[s.id]
	switch e {
	case partition:
		k.cutFrom = time.Now().Add(span)
		k.cutTo = k.cutFrom
	case oneWay:
		k.cutFrom = time.Now().Add(span)
	case killed, killedSubs:
		b.kill(s, e == killedSubs)
	case crash: // the process cannot reach the servers any more
		p.Crashed = true
		for _, k := range p.links {
			k.cutTo = time.Now().Add(1000 * time.Hour)
			k.cutFrom = k.cutTo
		}
	case dropAll: // as a load balancer does: new connections work
		for _, c := range b.conns {
			c.stalled = true
		}
	case slowDials:
		p.slowUntil = time.Now().Add(4 * span)
	default:
		return false
	}
	return true
}

// kill breaks the connections to a server, or only its subscriptions.
func (b *backend) kill(s *server, subs bool) {
	for _, c := range slices.Clone(b.conns) {
		if c.server == s && (!subs || len(c.channels) > 0) {
			b.close(c)
		}
	}
}

// serverFails injects a fault of a server, or changes the data of the servers.
func (b *backend) serverFails(e sim.Event, s *server, key string, span time.Duration, d simrand.Rand) {
	switch e {
	case loading, busy, readOnly, outOfMemory:
		if e == outOfMemory && !time.Now().Before(s.until) {
			s.fullSince = time.Now()
		}
		s.refuses, s.until = e, time.Now().Add(span)
	case scriptFlush:
		s.forgetScripts()
	case down:
		b.restart(s, span)
	case wipe:
		s.redis.DB(0).FlushDB() // the copies stay
		b.loseData(s, span)
	case failOver:
		s.restore(simrand.Pick(d, s.copies...))
		b.loseData(s, span)
	case serverAhead:
		s.step += span
		b.VoidAll("")
	case serverBack:
		s.step -= span
	case deleteKey, otherType:
		b.VoidAll(key)
		s.execute([]string{"DEL", lockKey(key)})
		if e == otherType {
			s.execute([]string{"HSET", lockKey(key), "something", "else"})
			s.execute([]string{"PEXPIRE", lockKey(key), milliseconds(span)})
		}
	case forge:
		b.forge(d)
	case loseCopies:
		b.loseCopies(key, d)
	}
}

func milliseconds(d time.Duration) string { return strconv.FormatInt(max(d.Milliseconds(), 1), 10) }

// restart breaks all connections. The server refuses new ones for a time.
func (b *backend) restart(s *server, span time.Duration) {
	b.kill(s, false)
	s.forgetScripts()
	s.restarts++
	s.down = sim.Later(s.down, time.Now().Add(span))
}

// loseData restarts a server without its data. Leases need not survive that, except those of a
// quorum, because a member that has lost data stays down for the longest TTL.
func (b *backend) loseData(s *server, span time.Duration) {
	if !b.plan.Quorum {
		b.VoidAll("")
		b.restart(s, span/4)
		return
	}
	longest := 2 * b.plan.TTL
	b.restart(s, longest+longest/50)
	s.away = s.down
}

// loseCopies makes so many members of a quorum lose a lock that its holder must learn of the
// loss. The copies of the other members do not help the holder.
func (b *backend) loseCopies(key string, d simrand.Rand) {
	lost := d.Perm(len(b.servers))[:len(b.servers)/2+1]
	if key == sim.PermitName {
		lost = lost[:1]
	}
	b.VoidAll(key)
	for _, i := range lost {
		b.servers[i].execute([]string{"DEL", lockKey(key)})
		b.servers[i].execute([]string{"DEL", lockKey(key) + ":r"})
	}
}

// overhear keeps the latest signals of each channel.
func (b *backend) overhear(sig signal) {
	const most = 20
	heard := b.overheard[sig.channel]
	heard = append(heard, sig.text)
	b.overheard[sig.channel] = heard[max(0, len(heard)-most):]
}

// forge publishes messages of an attacker who can list the channels, subscribe to them and
// publish, and nothing else. The attacker knows the format of messages.
func (b *backend) forge(d simrand.Rand) {
	token := simrand.Pick(d, 1<<53-1, 1<<53-2, time.Now().UnixMicro()+d.Int64N(1e6), time.Now().UnixMicro()+d.Int64N(1e12), 1, 0, -1)
	for _, c := range b.conns {
		for _, channel := range c.channels {
			var text []byte
			forged := b.forgeries(channel, token)
			for _, one := range forged {
				text = append(text, bulks("message", channel, one)...)
			}
			b.Counts.Faults["forged signal"] += len(forged)
			c.send(parcel{at: c.onWay(time.Millisecond), text: text, awaits: true})
		}
	}
}

// forgeries returns forged messages with a token: for guessed owners, in clear text and by their
// tags, and copies of messages on the channel, unchanged and with the token.
func (b *backend) forgeries(channel string, token int64) (out []string) {
	const serials = 100
	client := strings.TrimPrefix(channel, prefix)
	for n := range serials {
		owner := fmt.Sprintf("%s:%d", client, n)
		out = append(out, fmt.Sprintf("%s %d", owner, token),
			fmt.Sprintf("%s %d %s", tagOf(owner), token, digestOf(fmt.Sprintf("%s %d", owner, token))))
	}
	for _, heard := range b.overheard[channel] {
		words := strings.Fields(heard)
		if len(words) > 1 {
			words[1] = strconv.FormatInt(token, 10)
		}
		out = append(out, heard, strings.Join(words, " "))
	}
	return out
}
