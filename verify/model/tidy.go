package model

import (
	"math/bits"
	"slices"
)

// tidy drops from a state what can make no difference any more, so that states
// which differ only in that are one.
func (m *Model) tidy(s *State) {
	if !m.exact() {
		s.Server.Last, s.Server.LastLeft, s.Copy.Last, s.Copy.LastLeft = 0, 0, 0, 0
	}
	for i := range m.Owners {
		o := &s.Owners[i]
		if m.Flight > 0 {
			m.expireFlights(o)
		}
		m.tidyOwner(o)
		if m.harmless(s) {
			m.dropHarmless(s, i)
		}
		if o.Phase == Ended && o.quiet() {
			*o = Owner{Phase: Ended, Line: o.Line, Life: o.Life}
			if m.Bug != OwnerReused {
				s.Server.Seats[i].Tomb = 0
			}
		}
	}
	if s.World.Forces == m.Force || s.World.Admin != s.Server.Token && m.Bug != ForceWithoutToken && !m.Stale {
		s.World.Admin = 0
	}
	s.renumber()
}

func (m *Model) tidyOwner(o *Owner) {
	switch o.Phase {
	case Waiting:
		o.Token, o.Left = 0, 0
		if o.Try == 1 {
			o.Signal, o.Anchor, o.Mark = 0, 0, 0
		}
		if o.Signal <= o.Mark && m.Bug != StaleSignal && m.Bug != MarkOfLastAnswer {
			o.Signal = 0
		}
	case Held:
		if o.Forced != o.Token && m.Bug != ForceSignalsNoToken {
			o.Forced = 0
		}
		o.Anchor, o.Mark, o.Signal = 0, 0, 0
		m.forgetAnswers(o, m.Bug == LateQueuedEndsHold)
	case Ending, Ended:
		o.Anchor, o.Mark, o.Signal, o.Forced, o.Unsure = 0, 0, 0, 0, 0
		if o.Left == 0 {
			o.Token = 0
		}
		if m.Bug != EndedOwnerListens {
			m.dropAnswers(o)
		}
	}
	if o.Phase == Ended {
		o.InTime, o.Repeated, o.Freed, o.Token, o.Left = 0, 0, 0, 0, 0
		if o.Release.Stage == Answered {
			o.Release = Call{}
		}
	}
	if m.Bug != PollsNeedNoTombstone {
		o.Answered = 0
	}
	if !slices.ContainsFunc([]uint8{o.Token, o.Signal, o.Acquire[0].Token, o.Acquire[1].Token}, func(t uint8) bool {
		return 0 < t && t <= o.Excuse
	}) {
		o.Excuse = 0
	}
}

// forgetAnswers keeps that ACQUIREs were answered, or are under way, of an owner
// that does not care for more.
func (m *Model) forgetAnswers(o *Owner, codes bool) {
	for c := range o.Acquire {
		call := &o.Acquire[c]
		call.Token = 0
		if m.Flight == 0 {
			call.Age = 0
		}
		if !codes {
			call.Code = 0
		}
	}
}

// dropAnswers drops the answers to an owner that listens no more.
func (m *Model) dropAnswers(o *Owner) {
	for _, call := range []*Call{&o.Acquire[0], &o.Acquire[1], &o.Renew} {
		if call.Stage == Answered {
			*call = Call{}
		}
		if m.Flight == 0 {
			call.Age = 0
		}
	}
}

// expireFlights drops the requests that have been on their way for too long.
func (m *Model) expireFlights(o *Owner) {
	for c := range o.Acquire {
		if o.Acquire[c].Stage == Sent && o.Acquire[c].Age >= m.Flight {
			o.Acquire[c], o.Unsure = Call{}, 1
		}
	}
}

// harmless tells whether a request that means nothing to the server now never will
// again.
func (m *Model) harmless(s *State) bool {
	switch m.Bug {
	case RenewOfAnyone, RenewOfAnyToken, RenewCreates, ReleaseOfAnyone, ReleasePopsAgain,
		OwnerReused, EndedOwnerListens, HandOverKeepsToken, TokenWithoutClock, TokenFromClockAlone, TokenForgottenEarly:
		return false
	}
	return !m.Stale || s.World.Copied == 2
}

// dropHarmless drops the requests of an owner that can change nothing any more.
func (m *Model) dropHarmless(s *State, i int) {
	o, seat := &s.Owners[i], &s.Server.Seats[i]
	renewable := func(token uint8) bool { return seat.Holds == 1 && s.Server.Token == token }
	if o.Double.Kind == Renew && !renewable(o.Double.Token) {
		o.Double = Double{}
	}
	if o.Phase < Ending {
		return
	}
	if o.Renew.Stage == Sent && !renewable(o.Renew.Token) {
		o.Renew = Call{}
	}
	if seat.Tomb == forever && !m.Loss {
		o.Acquire = [2]Call{}
		if o.Double.Kind == Acquire {
			o.Double = Double{}
		}
	}
	if seat.Holds == 1 || seat.Place > 0 || o.Acquire[0].Stage != None || o.Acquire[1].Stage != None || o.Double.Kind == Acquire {
		return
	}
	if o.Double.Kind == Release {
		o.Double = Double{}
	}
	if o.Phase == Ended {
		o.Release = Call{}
	}
}

// renumber closes the gaps between the tokens.
func (s *State) renumber() {
	var used uint64
	each := func(do func(*uint8)) {
		for _, t := range []*uint8{&s.World.Top, &s.World.Admin, &s.Server.Token, &s.Server.Last, &s.Copy.Token, &s.Copy.Last} {
			do(t)
		}
		for i := range s.Owners {
			o := &s.Owners[i]
			for _, t := range []*uint8{&o.Token, &o.Mark, &o.Signal, &o.Forced, &o.Excuse, &o.Acquire[0].Token, &o.Acquire[1].Token, &o.Renew.Token} {
				do(t)
			}
			if o.Double.Kind == Renew {
				do(&o.Double.Token)
			}
		}
	}
	each(func(t *uint8) { used |= 1 << *t })
	used &^= 1
	if used&(used+2) == 0 { // they are 1, 2, 3 and so on
		return
	}
	each(func(t *uint8) {
		if *t > 0 {
			*t = uint8(bits.OnesCount64(used & (2<<*t - 1))) //nolint:gosec // at most 64
		}
	})
}
