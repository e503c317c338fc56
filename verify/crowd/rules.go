package crowd

import "slices"

// Modes, as the scripts name them.
const (
	read    = 'r'
	write   = 'w'
	permit  = 'p'
	members = 'm'
)

const memory = 600_000 // ms for which the last token is remembered

// ask is a request for the lock. Times are in ms.
type ask struct {
	owner      string
	mode       byte
	limit      int
	members    string // each a letter
	ttl, place int64
}

func (a ask) family() byte {
	if a.mode == write {
		return read
	}
	return a.mode
}

// tenure is a lease, or a place in the queue, whose token is 0.
type tenure struct {
	ask
	token uint64
	end   int64
}

// answer is one to a request for the lock.
type answer struct {
	code  int // of the script: -1 refused, 0 taken, 1 granted; 2 is a wrong type
	token uint64
	ms    int64
	head  int
}

// rules are a shared lock.
type rules struct {
	now    int64
	stored uint64 // the last token
	until  int64  // when it is forgotten
	leases map[string]*tenure
	queue  []*tenure
	tombs  map[string]int64

	last uint64 // during a request
}

func newRules(now int64) *rules {
	return &rules{now: now, leases: map[string]*tenure{}, tombs: map[string]int64{}}
}

// begin forgets what has ended, and counts tokens from the clock at least.
func (r *rules) begin() {
	for owner, l := range r.leases {
		if l.end <= r.now {
			delete(r.leases, owner)
		}
	}
	if r.until <= r.now {
		r.stored = 0
	}
	r.last = max(r.stored, uint64(r.now)*1000-1)
}

// after is the end of what lasts for so long from now, which is rounded down.
func (r *rules) after(ms int64) int64 { return r.now + ms + 1 }

func (r *rules) grant(t *tenure, end int64) *tenure {
	r.last++
	r.stored = r.last
	r.until = int64(r.last/1000) + memory
	l := *t
	l.token, l.end = r.last, end
	r.leases[t.owner] = &l
	return &l
}

func (r *rules) placeOf(owner string) *tenure {
	for _, p := range r.queue {
		if p.owner == owner {
			return p
		}
	}
	return nil
}

// otherFamily tells whether the lock is in use in modes that do not go with this.
func (r *rules) otherFamily(a ask) bool {
	for _, l := range r.leases {
		if l.family() != a.family() {
			return true
		}
	}
	return slices.ContainsFunc(r.queue, func(p *tenure) bool { return p.end > r.now && p.family() != a.family() })
}

func (r *rules) acquire(a ask) answer {
	r.begin()
	if r.tombs[a.owner] > r.now {
		return answer{code: -1}
	}
	if r.otherFamily(a) {
		return answer{code: 2}
	}
	r.queue = slices.DeleteFunc(r.queue, func(p *tenure) bool { return p.family() != a.family() })
	if l := r.leases[a.owner]; l != nil {
		return r.again(l, a)
	}
	place := r.placeOf(a.owner)
	if place != nil && place.mode != a.mode {
		return answer{token: r.last}
	}
	if place != nil && a.place > 0 {
		place.end = r.after(a.place)
	}
	r.queue = slices.DeleteFunc(r.queue, func(p *tenure) bool { return p.end <= r.now && p != place })
	wanted := r.serve()
	if l := r.leases[a.owner]; l != nil {
		l.end = r.after(a.ttl)
		return answer{code: 1, token: l.token}
	}
	if place == nil {
		t := &tenure{ask: a}
		if (a.mode == members || len(r.queue) == 0) && r.fits(a, wanted) {
			return answer{code: 1, token: r.grant(t, r.after(a.ttl)).token}
		}
		if a.place > 0 {
			t.end = r.after(a.place)
			r.queue = append(r.queue, t)
		}
	}
	return r.taken(a)
}

// again is a request of one that has a lease.
func (r *rules) again(l *tenure, a ask) answer {
	switch {
	case l.mode == write && a.mode == read:
		l.mode, l.end = read, r.after(a.ttl)
		r.serve()
	case l.mode != a.mode:
		return answer{token: r.last}
	}
	l.end = r.after(a.ttl)
	return answer{code: 1, token: l.token}
}

// serve grants what fits, in order, and returns what those want that still wait.
func (r *rules) serve() map[rune]bool {
	wanted := map[rune]bool{}
	for i := 0; i < len(r.queue); {
		p := r.queue[i]
		switch {
		case p.end <= r.now:
			r.queue = slices.Delete(r.queue, i, i+1)
		case r.fits(p.ask, wanted):
			r.grant(p, p.end)
			r.queue = slices.Delete(r.queue, i, i+1)
		case p.mode == members:
			for _, m := range p.members {
				wanted[m] = true
			}
			i++
		default:
			return wanted
		}
	}
	return wanted
}

func (r *rules) fits(a ask, wanted map[rune]bool) bool {
	for _, m := range a.members {
		if wanted[m] {
			return false
		}
	}
	switch a.mode {
	case permit:
		return len(r.leases) < a.limit
	case write:
		return len(r.leases) == 0
	}
	for _, l := range r.leases {
		if l.mode == write || common(l.members, a.members) {
			return false
		}
	}
	return true
}

func common(a, b string) bool {
	for _, m := range a {
		for _, n := range b {
			if m == n {
				return true
			}
		}
	}
	return false
}

// taken is the answer to one that does not get the lock now.
func (r *rules) taken(a ask) answer {
	var ends []int64
	for _, l := range r.leases {
		if a.mode != members || common(l.members, a.members) {
			ends = append(ends, l.end)
		}
	}
	slices.Sort(ends)
	which := len(ends) - 1
	if a.mode == permit {
		which -= a.limit - 1
	}
	ms := int64(0)
	if which >= 0 {
		ms = max(ends[which]-r.after(0), 1)
	}
	head := 0
	if a.mode == members && ms > 0 || len(r.queue) > 0 && r.queue[0].owner == a.owner {
		head = 1
	}
	return answer{token: r.last, ms: ms, head: head}
}

func (r *rules) release(owner string, tombstone int64) int {
	r.begin()
	done := 0
	if _, ok := r.leases[owner]; ok {
		delete(r.leases, owner)
		done = 1
	} else if i := slices.IndexFunc(r.queue, func(p *tenure) bool { return p.owner == owner }); i >= 0 {
		r.queue = slices.Delete(r.queue, i, i+1)
		done = 2
	}
	if done > 0 {
		r.serve()
	}
	if tombstone > 0 {
		r.tombs[owner] = r.now + tombstone
	}
	return done
}

func (r *rules) renew(owner string, token uint64, ttl int64) bool {
	r.begin()
	l := r.leases[owner]
	if l == nil || l.token != token {
		return false
	}
	l.end = r.after(ttl)
	return true
}

func (r *rules) force(seen uint64) int {
	r.begin()
	done := 0
	for owner, l := range r.leases {
		if l.token <= seen {
			delete(r.leases, owner)
			done++
		}
	}
	if done > 0 {
		r.serve()
	}
	return done
}

// broken names a rule that the rules themselves have broken.
func (r *rules) broken() string {
	writers, readers := 0, 0
	for owner, l := range r.leases {
		if l.end <= r.now {
			continue
		}
		switch l.mode {
		case write:
			writers++
		case read:
			readers++
		}
		for other, k := range r.leases {
			if other != owner && k.end > r.now && common(l.members, k.members) {
				return "a member has two owners"
			}
		}
	}
	if writers > 1 || writers == 1 && readers > 0 {
		return "a writer is not alone"
	}
	return ""
}
