// The execution of a command on a server, and the checks of its changes.

package full

import (
	"maps"
	"slices"
	"strconv"
	"strings"
)

// execute executes a command on a server, and checks the changes. The caller holds World.Mu.
func (b *backend) execute(c *conn, m message) []byte {
	switch m.name {
	case "subscribe", "unsubscribe":
		return c.subscribe(m)
	case "ping":
		if len(c.channels) > 0 {
			return bulks("pong", "")
		}
	}
	b.Counts.Operations["executed"]++
	if m.name == unknown { // the server did not know the script when it was sent
		now := c.server.read(m.args)
		now.nth, now.again = m.nth, m.again
		m = now
	}
	next, before := c.server.nextHolder(m)
	var held map[string][]lease
	if m.renews() || m.name == inBulk {
		b.observe(c.server, nil)
		held = maps.Clone(c.server.seen)
	}
	c.server.findAstray(b, m)
	answer, said := c.server.execute(m.args)
	b.Note("p%d %s %s #%d: %q", c.process.ID, m.name, b.Names.Of(m.owner), m.nth, answer)
	if len(answer) > 0 && answer[0] == '-' {
		b.refused(answer)
	}
	b.observe(c.server, &m)
	switch {
	case strings.HasSuffix(m.name, "release"):
		b.givenUp(keyOf(m), m.owner)
	case m.name == inBulk:
		b.releasedInBulk(c.server, m, held)
	}
	if m.name == "release" && string(answer) == ":1\r\n" {
		b.checkHandOver(c.server, keyOf(m))
	}
	if m.renews() {
		b.createsNothing(c.server, held)
	}
	if next != "" {
		b.checkOrder(c.server, keyOf(m), next, before)
	}
	for _, s := range said {
		c.server.publish(b, s)
	}
	return answer
}

// findAstray records grants of which the client does not learn. A server of a quorum that
// executes a request again may grant a lock that it refused before, or that has expired.
func (s *server) findAstray(b *backend, m message) {
	if !b.plan.Quorum || m.owner == "" || m.renews() || m.name == inBulk {
		return
	}
	key := keyOf(m)
	isOfOwner := func(l lease) bool { return l.owner == m.owner }
	switch grant := key + " " + m.owner; {
	case m.again && !slices.ContainsFunc(s.holders(key), isOfOwner):
		s.astray[grant] = true
	case !m.again && s.astray[grant]: // the client learns of the grant now
		delete(s.astray, grant)
		s.seen[key] = slices.DeleteFunc(slices.Clone(s.seen[key]), isOfOwner)
	}
}

// givenUp forgets which servers granted a lock to an owner that releases it. Grants to later
// requests of that owner are not used.
func (b *backend) givenUp(key, owner string) {
	for _, s := range b.servers {
		delete(s.granted, key+" "+owner)
	}
}

// releasedInBulk checks that all released locks belonged to their owners and had no waiters.
func (b *backend) releasedInBulk(s *server, m message, before map[string][]lease) {
	b.Check("released in bulk")
	b.Counts.Operations["released in bulk"] += len(m.pairs)
	given := make(map[string]bool) // by "key owner token"; a quorum may give back two attempts for one key
	for i, pair := range m.pairs {
		owner, _, _ := strings.Cut(pair, " ")
		key := keyIn(m.args[3+i])
		given[key+" "+pair] = true
		b.givenUp(key, owner)
	}
	for _, key := range b.plan.Names() {
		for _, l := range before[key] {
			if slices.ContainsFunc(s.seen[key], func(now lease) bool { return now.token == l.token }) {
				continue
			}
			if !given[key+" "+l.owner+" "+strconv.FormatUint(l.token, 10)] {
				b.Violated("released in bulk", "S4: %s was taken from %s", key, b.Names.Of(l.owner))
			}
			b.checkHandOver(s, key)
		}
	}
}

// keyOf returns the name of the lock that a script is about.
func keyOf(m message) string { return keyIn(m.args[3]) }

// keyIn returns the name of the lock of a key.
func keyIn(key string) string {
	return strings.TrimSuffix(strings.TrimPrefix(key, prefix+"{"), "}")
}

// checkHandOver checks that a lock that was released went to the next waiter, if there is one.
func (b *backend) checkHandOver(s *server, key string) {
	b.Check("hand-over")
	if alive := s.alive(key); len(alive) > 0 && len(s.seen[key]) == 0 {
		b.Violated("hand-over", "L3: %s was released and is free, but %d owners wait in its queue", key, len(alive))
	}
}

// nextHolder returns the owner that must get an exclusive lock if a script grants it: the first
// waiter with a live place, or the owner of the request. It is empty for other scripts. before
// is the previous holder.
func (s *server) nextHolder(m message) (next string, before []lease) {
	if m.name != "acquire" && m.name != "release" {
		return "", nil
	}
	s.setTime()
	key := keyOf(m)
	if alive := s.alive(key); len(alive) > 0 {
		return alive[0], s.seen[key]
	}
	return m.owner, s.seen[key]
}

// checkOrder checks that a lock that was granted went to the next owner.
func (b *backend) checkOrder(s *server, key, next string, before []lease) {
	now := s.seen[key]
	if len(now) == 0 || len(before) > 0 && before[0].token == now[0].token {
		return
	}
	b.Check("order")
	if got := now[0].owner; got != next {
		b.Violated("order", "FIFO: %s is granted to %s, but %s was the next waiter", key, b.Names.Of(got), b.Names.Of(next))
	}
}

// createsNothing checks that a renewal granted no lock.
func (b *backend) createsNothing(s *server, before map[string][]lease) {
	b.Check("renewal creates nothing")
	for key, now := range s.seen {
		for _, l := range now {
			if !slices.ContainsFunc(before[key], func(b lease) bool { return b.token == l.token }) {
				b.Violated("renewal creates nothing", "S5: a renewal made %s the holder of %s again", b.Names.Of(l.owner), key)
			}
		}
	}
}

// refused counts an error reply of a server that does not serve.
func (b *backend) refused(answer []byte) {
	words := strings.Fields(string(answer[1:]))
	for event, text := range refusals {
		if strings.Contains(string(answer), text) {
			b.Counts.Faults["refused: "+string(event)]++
			return
		}
	}
	b.Counts.Faults["refused: "+words[0]]++
}
