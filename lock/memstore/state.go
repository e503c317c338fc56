package memstore

import (
	"container/list"
	"slices"
	"time"

	"github.com/leasewheel/leasewheel/lock"
)

// state is what the store knows of one key: who holds it, and who waits for it.
// Its methods are called with Store.mu held.
type state struct {
	family  lock.Mode          // of all holders and waiters; Write stands for Read, too
	holders []*holder          // in the order of their grants
	granted uint64             // the last token
	queue   list.List          // of *waiter
	taken   map[string]*holder // by member
	wanted  map[string]int     // member → how many in the queue want it
}

// holder is one lease.
type holder struct {
	owner    string
	mode     lock.Mode
	token    uint64
	until    time.Time
	members  []string
	metadata string
}

func (h *holder) alive(now time.Time) bool { return now.Before(h.until) }

func familyOf(m lock.Mode) lock.Mode {
	if m == lock.Read {
		return lock.Write
	}
	return m
}

// idle: nobody holds the key and nobody waits for it.
func (k *state) idle() bool { return len(k.holders) == 0 && k.queue.Len() == 0 }

// find returns the lease of an owner, which may have expired, nil if it has none.
func (k *state) find(owner string) *holder {
	for _, h := range k.holders {
		if h.owner == owner {
			return h
		}
	}
	return nil
}

// fits tells whether the holders leave room for a request.
func (k *state) fits(r lock.Request) bool {
	switch r.Mode {
	case lock.Read:
		return len(k.holders) == 0 || k.holders[0].mode == lock.Read
	case lock.Permit:
		return len(k.holders) < r.Limit()
	case lock.Members:
		return !slices.ContainsFunc(r.Members(), func(m string) bool { return k.taken[m] != nil })
	}
	return len(k.holders) == 0
}

// overtakes tells whether a request that is granted would overtake one that waits.
func (k *state) overtakes(r lock.Request) bool {
	if r.Mode != lock.Members {
		return k.queue.Len() > 0
	}
	return slices.ContainsFunc(r.Members(), func(m string) bool { return k.wanted[m] > 0 })
}

// inTheWay returns how long the leases last that keep a request from being granted,
// 0 if it is only kept by those that wait.
func (k *state) inTheWay(r lock.Request, now time.Time) time.Duration {
	var end time.Time
	switch {
	case k.fits(r):
		return 0
	case r.Mode == lock.Permit:
		ends := make([]time.Time, len(k.holders))
		for i, h := range k.holders {
			ends[i] = h.until
		}
		slices.SortFunc(ends, time.Time.Compare)
		end = ends[len(ends)-r.Limit()]
	case r.Mode == lock.Members:
		for _, m := range r.Members() {
			if h := k.taken[m]; h != nil && h.until.After(end) {
				end = h.until
			}
		}
	default:
		return k.last(now)
	}
	return end.Sub(now)
}

// last returns how long the last of the leases lasts, 0 if there is none.
func (k *state) last(now time.Time) time.Duration {
	var left time.Duration
	for _, h := range k.holders {
		left = max(left, h.until.Sub(now))
	}
	return left
}

// first returns how long it is until the first of the leases ends.
func (k *state) first(now time.Time) time.Duration {
	left := k.last(now)
	for _, h := range k.holders {
		left = min(left, h.until.Sub(now))
	}
	return left
}

func (k *state) add(h *holder) {
	k.holders = append(k.holders, h)
	if len(h.members) > 0 && k.taken == nil {
		k.taken = make(map[string]*holder)
	}
	for _, m := range h.members {
		k.taken[m] = h
	}
}

// expire drops the leases that have ended.
func (k *state) expire(now time.Time) {
	k.drop(func(h *holder) bool { return !h.alive(now) })
}

// drop takes leases away.
func (k *state) drop(which func(*holder) bool) {
	k.holders = slices.DeleteFunc(k.holders, func(h *holder) bool {
		if !which(h) {
			return false
		}
		for _, m := range h.members {
			delete(k.taken, m)
		}
		return true
	})
}
