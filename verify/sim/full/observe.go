// The changes of locks on a server, and their records in the history.

package full

import (
	"slices"
	"time"

	"github.com/leasewheel/leasewheel/verify/sim"
)

// observe compares the locks of a server with those at the latest look, and records the changes
// in the history. by is the command that was executed, or nil if only time has passed. The
// caller holds World.Mu.
func (b *backend) observe(s *server, by *message) {
	for _, key := range b.plan.Names() {
		before := s.seen[key]
		now := s.holders(key)
		s.seen[key] = now
		for _, l := range now {
			if _, counts := s.granted[key+" "+l.owner]; counts {
				s.countGrant(key, l)
			}
			i := slices.IndexFunc(before, func(old lease) bool { return old.owner == l.owner && old.token == l.token })
			switch {
			case i < 0:
				b.checkToken(s, key, l)
				b.granted(key, l)
			case before[i].mode != l.mode:
				b.modeChanged(key, l)
				b.kept(key, l)
			case by != nil && (l.left > before[i].left || by.isFor(l)): // setting a clock back renews no lease
				b.kept(key, l)
			}
		}
		_, free := b.freeSince[key]
		switch {
		case len(now) > 0:
			delete(b.freeSince, key)
		case !free:
			b.freeSince[key] = time.Now()
			b.Note("%s is free", key)
		}
	}
}

// observeAll observes all servers.
func (b *backend) observeAll() {
	for _, s := range b.servers {
		b.observe(s, nil)
	}
}

// checkToken checks that the tokens of a server rise.
func (b *backend) checkToken(s *server, key string, l lease) {
	s.countGrant(key, l)
	id := sim.GrantID{Key: key, Owner: l.owner, Token: l.token}
	if s.known[id] { // a restored copy of the data has the grant again
		return
	}
	s.known[id] = true
	b.Check("token")
	if l.token <= s.last[key] && b.processOf(l.owner) != nil {
		b.Violated("token", "S3: %s got token %d after %d", key, l.token, s.last[key])
	}
	s.last[key] = max(s.last[key], l.token)
}

// countGrant records the end of an owner's lease on this server. The record stays even if the
// lease is lost.
func (s *server) countGrant(key string, l lease) {
	if s.astray[key+" "+l.owner] {
		return
	}
	s.granted[key+" "+l.owner] = time.Now().Add(time.Duration(float64(l.left) / s.rate))
}

// processOf returns the process of an owner on a server, or nil if it belongs to none.
func (b *backend) processOf(owner string) *sim.Process { return b.Owners[b.base(owner)] }

// granted records that a server granted a lock to an owner.
func (b *backend) granted(key string, to lease) {
	p := b.processOf(to.owner)
	if p == nil {
		b.Note("%s is somebody else's", key)
		return
	}
	if b.plan.Quorum && !b.hasMajority(key, to) {
		return
	}
	kind := "grant"
	if b.plan.Quorum {
		kind = "majority"
	}
	b.Counts.Operations[kind]++
	id := b.idOf(key, to.owner, to.token)
	if b.Grants[id] == nil { // otherwise a restored copy has the grant again, or another server has granted it before
		b.Granted(&sim.Grant{GrantID: id, Process: p, Mode: to.mode, Members: to.members})
	}
}

// kept records that a server extended a lease. A full TTL repairs a void lease.
func (b *backend) kept(key string, l lease) {
	g := b.Grants[b.idOf(key, l.owner, l.token)]
	if g != nil && l.left >= g.Process.Plan.TTL && (b.plan.class != lostCopies || b.Lasts(g) > 0) { // one member is not a majority
		g.Void = false
	}
}

// modeChanged records that a server has turned a writer into a reader. Another server of a
// quorum may have done that before. A server that fell back to a copy may have the writer
// again.
func (b *backend) modeChanged(key string, l lease) {
	if g := b.Grants[b.idOf(key, l.owner, l.token)]; g != nil && g.Mode != l.mode && l.mode == sim.Reading {
		b.Downgraded(g)
	}
}
