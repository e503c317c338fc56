// Quorums: their attempts, their majorities and the ends of their leases.

package full

import (
	"slices"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/verify/sim"
)

// A quorum uses other owners for its members: it appends a dot and the number of the attempt to
// the owner.

// base returns the owner as the client knows it.
func (b *backend) base(owner string) string {
	if b.plan.Quorum {
		owner, _, _ = strings.Cut(owner, ".")
	}
	return owner
}

// attempt returns the attempt of a quorum in the name of an owner.
func attempt(owner string) string {
	_, attempt, _ := strings.Cut(owner, ".")
	return attempt
}

// idOf returns the ID of the grant that a lease on a server belongs to.
func (b *backend) idOf(key, owner string, token uint64) sim.GrantID {
	if b.plan.Quorum {
		token = 0
	}
	return sim.GrantID{Key: key, Owner: b.base(owner), Token: token}
}

// need returns the number of servers that must grant a lock in a mode.
func (b *backend) need(mode string) int {
	n := len(b.servers)
	if mode == sim.Permit {
		return n*sim.NumPermits/(sim.NumPermits+1) + 1
	}
	return n/2 + 1
}

// hasMajority reports whether enough servers have granted a lock to an owner. A grant counts
// until its lease would have expired, even if the lease is lost.
func (b *backend) hasMajority(key string, to lease) bool {
	n := 0
	for _, s := range b.servers {
		if time.Now().Before(s.granted[key+" "+to.owner]) {
			n++
		}
	}
	return n >= b.need(to.mode)
}

// newestAttempt returns the latest attempt for a grant that a server has seen.
func (b *backend) newestAttempt(g *sim.Grant) (newest string) {
	for _, s := range b.servers {
		for _, l := range s.holders(g.Key) {
			if is := attempt(l.owner); b.isOf(s, l, g) && (len(is) > len(newest) || len(is) == len(newest) && is > newest) {
				newest = is
			}
		}
	}
	return newest
}

// MayBeStale reports whether the client's attempt lacks a majority, or a pause delayed a request
// that was executed after its release.
func (b *backend) MayBeStale(g *sim.Grant) bool {
	_, paused := g.Process.Pauser.PausedSince(g.ConfirmedAt.Add(-2 * g.Process.Plan.TTL))
	return b.plan.Quorum && (paused || b.lastsBy(g, g.Attempt) == 0)
}

// Lasts counts a server that has lost its data while it is down.
func (b *backend) Lasts(g *sim.Grant) time.Duration { return b.lastsBy(g, "") }

// lastsBy is Lasts for one attempt, or for the best one if it is empty.
func (b *backend) lastsBy(g *sim.Grant, by string) time.Duration {
	away := 0
	left := map[string][]time.Duration{} // by the owner of the attempt
	for _, s := range b.servers {
		if b.plan.Quorum && time.Now().Before(s.away) {
			away++
			continue
		}
		for _, l := range s.holders(g.Key) {
			if b.isOf(s, l, g) && (by == "" || by == attempt(l.owner)) {
				left[l.owner] = append(left[l.owner], time.Duration(float64(l.left)/s.rate))
			}
		}
	}
	var longest time.Duration
	for _, of := range left {
		slices.Sort(of)
		if need := b.need(g.Mode) - away; need < 1 {
			longest = max(longest, of[len(of)-1])
		} else if len(of) >= need {
			longest = max(longest, of[len(of)-need])
		}
	}
	if away >= b.need(g.Mode) {
		return 1000 * time.Hour
	}
	return longest
}

// isOf reports whether a lease on a server is a part of a grant.
func (b *backend) isOf(s *server, l lease, g *sim.Grant) bool {
	sameMode := l.mode == g.Mode || l.mode == sim.Writing && g.Mode == sim.Reading // this server has not executed the downgrade yet
	return sameMode && !s.astray[g.Key+" "+l.owner] && b.idOf(g.Key, l.owner, l.token) == g.GrantID
}
