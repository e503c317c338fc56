package lock

import (
	"container/list"
	"sync/atomic"
	"time"
)

// seat is the place in front of the line of a key, which the holder of a lock keeps
// while it has the lock, if it may pass that on within this client: so those behind
// wait here and not in the store's queue. It goes along with the lock.
type seat struct {
	client  *Client // whose terms are those of the lease
	request Request
	passes  int // in a row, so far
	left    atomic.Bool
}

// sit gives a lock that has just been got its seat, or lets the next of the line ask
// if it gets none.
func (c *Client) sit(h *Held, r Request) {
	terms := c.terms
	if c.handovers == 0 || r.Mode != Exclusive || terms.Fixed || terms.MaxHold > 0 {
		c.lines.leave(r)
		return
	}
	c.lines.stay()
	h.hold.(*holding).take(&seat{client: c, request: r})
}

// take gives the holding its seat. If the lease ends in any other way than by
// unlocking, the next of the line asks the store.
func (s *holding) take(place *seat) {
	s.seat = place
	s.rise = s.entry.AfterFunc(place.leave)
}

// leave lets the next of the line ask. It is harmless to do so again, and without a
// seat.
func (p *seat) leave() {
	if p != nil && p.left.CompareAndSwap(false, true) {
		p.client.lines.move(p.request)
	}
}

// giveSeatUp lets the next of the line ask the store, for a lock that is lost and must
// not be passed on.
func (s *holding) giveSeatUp() {
	if s.seat != nil && s.rise() {
		s.seat.leave()
	}
}

// passOn gives the lock to the first who waits for it in this client, and reports
// whether it did. If it did not, the caller still has the lock, by the holding that is
// returned: s itself; or the one that was made for a waiter who has left meanwhile,
// which has taken the place of s.
func (s *holding) passOn() (instead *holding, passed bool) {
	p := s.seat
	if p == nil || p.passes >= p.client.handovers || !p.client.lines.has(p) {
		return s, false
	}
	lease := s.entry.Lease()
	if time.Until(s.entry.Deadline()) < lease.TTL/2 || !s.rise() {
		return s, false
	}
	entry, err := s.entry.Pass(lease)
	if err != nil {
		return s, false
	}
	p.passes++
	next := newHolding(p.client, entry)
	next.take(p)
	return next, p.client.lines.pass(p, &Held{hold: next})
}

// has reports whether somebody waits to whom the lock may be passed on.
func (l *lines) has(p *seat) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.heir(p) != nil
}

// pass gives the lock to the heir, and reports whether there was one.
func (l *lines) pass(p *seat, h *Held) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	place := l.heir(p)
	if place == nil {
		return false
	}
	l.n--
	l.of[lineOf(p.request)].behind.Remove(place).(*turn).given <- given{held: h}
	return true
}

// heir returns the place of the first in line whose ctx has not ended, if the lease
// is what it would ask for itself. The caller holds mu.
func (l *lines) heir(p *seat) *list.Element {
	of := l.of[lineOf(p.request)]
	if of == nil {
		return nil
	}
	for place := of.behind.Front(); place != nil; place = place.Next() {
		t := place.Value.(*turn)
		if t.ctx.Err() != nil {
			continue
		}
		if t.client.terms != p.client.terms || t.request.Extra != p.request.Extra {
			return nil
		}
		return place
	}
	return nil
}
