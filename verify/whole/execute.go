package whole

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/verify/chance"
)

// execute lets the server do a command that came over a line, and looks at what that
// changed. The caller holds mu.
func (w *world) execute(l *line, m message) []byte {
	switch m.name {
	case "subscribe", "unsubscribe":
		return l.subscribes(m)
	case "ping":
		if len(l.channels) > 0 {
			return bulks("pong", "")
		}
	}
	w.counts.Operations["executed"]++
	if m.name == unknown { // when it was sent
		now := l.server.read(m.args)
		now.nth, now.again = m.nth, m.again
		m = now
	}
	heir, before := l.server.heir(m)
	var held map[string][]lease
	if m.renews() {
		w.compare(l.server, nil)
		held = maps.Clone(l.server.seen)
	}
	l.server.strays(w, m)
	answer, said := l.server.execute(m.args)
	w.note("p%d %s %s #%d: %q", l.process.id, m.name, serial(m.owner), m.nth, answer)
	if len(answer) > 0 && answer[0] == '-' {
		w.refused(answer)
	}
	if strings.HasSuffix(m.name, "force") && string(answer) != ":0\r\n" {
		w.voidAll(keyOf(m)) // as if it had been deleted
	}
	w.compare(l.server, &m)
	if strings.HasSuffix(m.name, "release") {
		w.givenUp(m)
	}
	if m.name == "release" && string(answer) == ":1\r\n" {
		w.passedOn(l.server, m)
	}
	if m.renews() {
		w.createsNothing(l.server, held)
	}
	if heir != "" {
		w.inTurn(l.server, keyOf(m), heir, before)
	}
	for _, s := range said {
		l.server.publish(w, s)
	}
	return answer
}

// strays: a server of a quorum that executes a request again may grant what it refused
// when it was asked, and what has come to its end. Its client does not hear of that.
func (s *server) strays(w *world, m message) {
	if !w.plan.quorum() || m.owner == "" || m.renews() {
		return
	}
	key := keyOf(m)
	isOwners := func(l lease) bool { return l.owner == m.owner }
	switch grant := key + " " + m.owner; {
	case m.again && !slices.ContainsFunc(s.holders(key), isOwners):
		s.astray[grant] = true
	case !m.again && s.astray[grant]: // it hears of it now
		delete(s.astray, grant)
		s.seen[key] = slices.DeleteFunc(slices.Clone(s.seen[key]), isOwners)
	}
}

// givenUp forgets who granted a lock to an owner: what it releases it counts no more,
// and a copy that a late request of it gets is for nobody. The caller holds mu.
func (w *world) givenUp(m message) {
	for _, s := range w.servers {
		delete(s.granted, keyOf(m)+" "+m.owner)
	}
}

// keyOf returns the name of the lock that a script is about.
func keyOf(m message) string {
	return strings.TrimSuffix(strings.TrimPrefix(m.args[3], prefix+"{"), "}")
}

// passedOn checks that a lock which was released is with the next in its queue, if
// there is one. The caller holds mu.
func (w *world) passedOn(s *server, m message) {
	w.check("passed on")
	key := keyOf(m)
	if alive := s.alive(key); len(alive) > 0 && len(s.seen[key]) == 0 {
		w.violated("passed on", "L3: %s was released, and nobody has it, but %d wait in its queue", key, len(alive))
	}
}

// heir returns who must get the lock that a script is about, if it grants that one: the
// first in its queue whose place has not ended, or who asks. Before is whose it was. It
// is empty if the script grants no exclusive lock.
func (s *server) heir(m message) (heir string, before []lease) {
	if m.name != "acquire" && m.name != "release" {
		return "", nil
	}
	s.tell()
	key := keyOf(m)
	if alive := s.alive(key); len(alive) > 0 {
		return alive[0], s.seen[key]
	}
	return m.owner, s.seen[key]
}

// inTurn checks that a lock which was granted went to its heir. The caller holds mu.
func (w *world) inTurn(s *server, key, heir string, before []lease) {
	now := s.seen[key]
	if len(now) == 0 || len(before) > 0 && before[0].token == now[0].token {
		return
	}
	w.check("in turn")
	if got := now[0].owner; got != heir {
		w.violated("in turn", "FIFO: %s is granted to %s, it was the turn of %s", key, serial(got), serial(heir))
	}
}

// createsNothing checks that a renewal left nobody with a lock who had none before. The
// caller holds mu.
func (w *world) createsNothing(s *server, before map[string][]lease) {
	w.check("renewed")
	for key, now := range s.seen {
		for _, l := range now {
			if !slices.ContainsFunc(before[key], func(b lease) bool { return b.token == l.token }) {
				w.violated("renewed", "S5: a renewal has made %s the holder of %s again", serial(l.owner), key)
			}
		}
	}
}

// refused counts what the server answers instead of serving. The caller holds mu.
func (w *world) refused(answer []byte) {
	words := strings.Fields(string(answer[1:]))
	for event, text := range refusals {
		if strings.Contains(string(answer), text) {
			w.counts.Faults["refused: "+string(event)]++
			return
		}
	}
	w.counts.Faults["refused: "+words[0]]++
}

// subscribes changes what a line is subscribed to.
func (l *line) subscribes(m message) []byte {
	var out []byte
	names := m.args[1:]
	if m.name == "unsubscribe" && len(names) == 0 {
		names = slices.Clone(l.channels)
	}
	for _, name := range names {
		l.channels = slices.DeleteFunc(l.channels, func(c string) bool { return c == name })
		if m.name == "subscribe" && l.open {
			l.channels = append(l.channels, name)
		}
		out = append(out, changed(m.name, name, len(l.channels))...)
	}
	return out
}

// publish sends a signal to those who are subscribed. The caller holds mu.
func (s *server) publish(w *world, sig signal) {
	owner, _, _ := strings.Cut(sig.text, " ")
	w.counts.Operations["signal"]++
	w.signals[owner]++
	for _, l := range w.lines {
		if l.server != s || !slices.Contains(l.channels, sig.channel) {
			continue
		}
		delay, lost := l.signalled(owner)
		if lost {
			w.counts.Faults["lost signal"]++
			continue // with the connection of one that is cut it ends by its own means
		}
		if l.stalled {
			continue
		}
		l.send(parcel{at: l.onWay(delay), text: bulks("message", sig.channel, sig.text), gate: true})
	}
}

// signalled decides what becomes of a signal to an owner. The caller holds the world's mu.
func (l *line) signalled(owner string) (delay time.Duration, lost bool) {
	w := l.process.world
	if w.staging != nil {
		return w.staging.signal(), false
	}
	d := chance.New(w.plan.seed, 6, uint64(l.process.id), chance.Digest(serial(owner)), uint64(w.signals[owner]))
	delay = latency(d)
	switch n := d.IntN(1000); {
	case isCut(l.cutFrom), n < w.plan.net.lostSignal && w.mayFail(l.process):
		return 0, true
	case n >= w.plan.net.lostSignal && n < w.plan.net.lostSignal+w.plan.net.lateSignal:
		w.counts.Faults["late signal"]++
		delay = d.UpTo(2 * w.plan.ttl)
	}
	return delay, false
}

// compare looks at what a command, or time if it is nil, changed in the locks of a
// server. The caller holds mu.
func (w *world) compare(s *server, by *message) {
	for _, key := range w.plan.names() {
		before := s.seen[key]
		now := s.holders(key)
		s.seen[key] = now
		for _, l := range now {
			if _, counts := s.granted[key+" "+l.owner]; counts {
				s.grants(key, l)
			}
			i := slices.IndexFunc(before, func(b lease) bool { return b.owner == l.owner && b.token == l.token })
			switch {
			case i < 0:
				w.rises(s, key, l)
				w.granted(key, l)
			case before[i].mode != l.mode:
				w.turned(key, l)
				w.kept(key, l)
			case by != nil && (l.left > before[i].left || by.isFor(l)): // a clock that is set back renews nothing
				w.kept(key, l)
			}
		}
		_, free := w.freeSince[key]
		switch {
		case len(now) > 0:
			delete(w.freeSince, key)
		case !free:
			w.freeSince[key] = time.Now()
			w.note("%s is free", key)
		}
	}
}

// compareAll is compare for all servers.
func (w *world) compareAll() {
	for _, s := range w.servers {
		w.compare(s, nil)
	}
}

// rises checks the tokens of a server. The caller holds mu.
func (w *world) rises(s *server, key string, l lease) {
	s.grants(key, l)
	id := tenureID{key, l.owner, l.token}
	if s.known[id] { // a copy of the data has it again
		return
	}
	s.known[id] = true
	w.check("token")
	if l.token <= s.last[key] && w.owner(l.owner) != nil {
		w.violated("token", "S3: %s got token %d after %d", key, l.token, s.last[key])
	}
	s.last[key] = max(s.last[key], l.token)
}

// grants notes until when an owner has what this server has granted, whatever befalls it.
func (s *server) grants(key string, l lease) {
	if s.astray[key+" "+l.owner] {
		return
	}
	s.granted[key+" "+l.owner] = time.Now().Add(time.Duration(float64(l.left) / s.rate))
}
