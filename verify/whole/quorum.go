package whole

import (
	"slices"
	"strings"
	"time"

	"github.com/leasewheel/leasewheel/lock"
)

// A quorum asks its members in the name of owners that it makes of its own: for each
// try another, with a dot and a number behind. And who has metadata is asked for with
// those behind a brace.

func (w *world) base(owner string) string {
	owner, _, _ = strings.Cut(owner, "{")
	if w.plan.quorum() {
		owner, _, _ = strings.Cut(owner, ".")
	}
	return owner
}

// owner returns whose an owner is, nil if nobody's. The caller holds mu.
func (w *world) owner(name string) *process { return w.owners[w.base(name)] }

// idOf names what a server has granted.
func (w *world) idOf(key, owner string, token uint64) tenureID {
	if w.plan.quorum() {
		token = 0
	}
	return tenureID{key, w.base(owner), token}
}

// newest returns the grant that a handle is of. One of a quorum has no token: it is the
// latest that the same user was answered. The caller holds mu.
func (w *world) newest(u *user, held *lock.Held) *tenure {
	var found *tenure
	for _, t := range w.tenures {
		switch {
		case t.key != held.Key() || t.token != held.Token():
		case w.plan.quorum() && (t.user != u || t.handle() != nil || t.confirmedAt.IsZero()):
		case found == nil || t.confirmedAt.After(found.confirmedAt):
			found = t
		}
	}
	return found
}

// need is how many servers must grant a lock in a mode.
func (w *world) need(mode string) int {
	n := len(w.servers)
	if mode == permit {
		return n*permits/(permits+1) + 1
	}
	return n/2 + 1
}

// elects tells whether so many servers have granted a lock that the owner has it,
// whatever befell them since, unless their leases have ended. The caller holds mu.
func (w *world) elects(key string, to lease) bool {
	n := 0
	for _, s := range w.servers {
		if time.Now().Before(s.granted[key+" "+to.owner]) {
			n++
		}
	}
	return n >= w.need(to.mode)
}

// has tells whether so many servers as it takes have a lock for a tenure. The caller
// holds mu.
func (w *world) has(t *tenure) bool { return w.lasts(t) > 0 }

// try returns by what try of a quorum an owner was made.
func try(owner string) string {
	owner, _, _ = strings.Cut(owner, "{")
	_, try, _ := strings.Cut(owner, ".")
	return try
}

// newestTry returns the last try of which a server has something for a tenure. The
// caller holds mu.
func (w *world) newestTry(t *tenure) (newest string) {
	for _, s := range w.servers {
		for _, l := range s.holders(t.key) {
			if is := try(l.owner); w.isOf(s, l, t) && (len(is) > len(newest) || len(is) == len(newest) && is > newest) {
				newest = is
			}
		}
	}
	return newest
}

// mayBeOlder tells whether what the servers of a quorum have for a tenure may be of a
// try before it: what its own try has got is not enough, or one that a pause held up is
// executed after it was given up, and given back in vain. The caller holds mu.
func (w *world) mayBeOlder(t *tenure) bool {
	_, still := t.process.gate.StoodStill(t.confirmedAt.Add(-2 * t.process.plan.ttl))
	return w.plan.quorum() && (still || w.lastsBy(t, t.try) == 0)
}

// lasts returns how long so many servers as it takes will have a lock for a tenure, if
// they hear nothing more of it. One that has lost its data counts as long as it is kept
// away. The caller holds mu.
func (w *world) lasts(t *tenure) time.Duration { return w.lastsBy(t, "") }

// lastsBy is lasts for what one try has got, or any if it is empty.
func (w *world) lastsBy(t *tenure, by string) time.Duration {
	away := 0
	left := map[string][]time.Duration{} // by the owners of tries
	for _, s := range w.servers {
		if w.plan.quorum() && time.Now().Before(s.away) {
			away++
			continue
		}
		for _, l := range s.holders(t.key) {
			if w.isOf(s, l, t) && (by == "" || by == try(l.owner)) {
				left[l.owner] = append(left[l.owner], time.Duration(float64(l.left)/s.rate))
			}
		}
	}
	var longest time.Duration
	for _, of := range left {
		slices.Sort(of)
		if need := w.need(t.mode) - away; need < 1 {
			longest = max(longest, of[len(of)-1])
		} else if len(of) >= need {
			longest = max(longest, of[len(of)-need])
		}
	}
	if away >= w.need(t.mode) {
		return 1000 * time.Hour
	}
	return longest
}

// isOf tells whether what a server has is a part of a tenure.
func (w *world) isOf(s *server, l lease, t *tenure) bool {
	sameMode := l.mode == t.mode || l.mode == writing && t.mode == reading // one that is about to be turned
	return sameMode && !s.astray[t.key+" "+l.owner] && w.idOf(t.key, l.owner, l.token) == t.tenureID
}
