// The reduction of a state: it removes values that cannot affect later states.

package model

import (
	"math/bits"
	"slices"
)

// reduce removes from a state what cannot affect later states, so that states that differ
// only in that are equal.
func (m *Model) reduce(s *State) {
	if !m.exact() {
		s.Server.Last, s.Server.LastLeft, s.Copy.Last, s.Copy.LastLeft = 0, 0, 0, 0
	}
	for i := range m.Owners {
		o := &s.Owners[i]
		if m.MaxDelay > 0 {
			m.expireDelayed(o)
		}
		m.reduceOwner(o)
		if m.mayDropRequests(s) {
			m.dropRequests(s, i)
		}
		if o.Phase == Ended && o.quiet() {
			last := Owner{Phase: Ended, Order: o.Order, Reused: o.Reused, Saves: o.Saves}
			if int(s.Guest.Of) == i+1 && s.Guest.Phase != Ended {
				last.Released = o.Released
			}
			*o = last
			if m.Mutation != OwnerReused {
				s.Server.Records[i].Tombstone = 0
			}
		}
	}
	m.reduceGuest(s)
	if s.World.Forces == m.Force || s.World.Admin != s.Server.Token && m.Mutation != ForceWithoutToken && !m.Stale {
		s.World.Admin = 0
	}
	s.renumber()
}

func (m *Model) reduceOwner(o *Owner) {
	switch o.Phase {
	case Waiting:
		o.Token, o.Left, o.Keep = 0, 0, 0
		if o.Try == 1 {
			o.Signal, o.Anchor, o.Mark = 0, 0, 0
		}
		if o.Signal <= o.Mark && m.Mutation != StaleSignal && m.Mutation != MarkOfLastAnswer {
			o.Signal = 0
		}
	case Held:
		if o.Forced != o.Token && m.Mutation != ForceSignalsNoToken {
			o.Forced = 0
		}
		o.Anchor, o.Mark, o.Signal = 0, 0, 0
		if o.Left == 0 {
			o.Keep = 0
		}
		m.forgetAnswers(o, m.Mutation == LateQueuedEndsHold)
	case Ending, Ended:
		o.Anchor, o.Mark, o.Signal, o.Forced, o.Unsure = 0, 0, 0, 0, 0
		if o.Left == 0 {
			o.Token = 0
		}
		if m.Mutation != EndedOwnerListens {
			m.dropAnswers(o)
		}
	}
	if o.Phase == Ended {
		o.InTime, o.Repeated, o.Freed, o.Token, o.Left, o.Keep = 0, 0, 0, 0, 0, 0
		if o.Release.Stage == Answered {
			o.Release = Call{}
		}
	}
	if m.Mutation != PollsNeedNoTombstone {
		o.Answered = 0
	}
	if o.Phase != Held {
		o.Saves.Denied = 0
	}
	if o.Phase != Waiting || o.Acquire[0].Stage != Answered || o.Acquire[0].Code != Granted {
		o.Told = Saved{}
	}
	if o.Signal == 0 {
		o.Heard = Saved{}
	}
	if !slices.ContainsFunc([]uint8{o.Token, o.Signal, o.Acquire[0].Token, o.Acquire[1].Token}, func(t uint8) bool {
		return 0 < t && t <= o.ForcedOut
	}) {
		o.ForcedOut = 0
	}
}

// forgetAnswers removes the values of answers to ACQUIREs, but not that they exist.
func (m *Model) forgetAnswers(o *Owner, codes bool) {
	for c := range o.Acquire {
		call := &o.Acquire[c]
		call.Token = 0
		if m.MaxDelay == 0 {
			call.Age = 0
		}
		if !codes {
			call.Code = 0
		}
	}
}

// dropAnswers removes the answers to an owner that ignores them.
func (m *Model) dropAnswers(o *Owner) {
	for _, call := range []*Call{&o.Acquire[0], &o.Acquire[1], &o.Renew} {
		if call.Stage == Answered {
			*call = Call{}
		}
		if m.MaxDelay == 0 {
			call.Age = 0
		}
	}
}

// expireDelayed removes requests that exceed the maximum delay.
func (m *Model) expireDelayed(o *Owner) {
	for c := range o.Acquire {
		if o.Acquire[c].Stage == Sent && o.Acquire[c].Age >= m.MaxDelay {
			o.Acquire[c], o.Unsure = Call{}, 1
		}
	}
}

// mayDropRequests returns whether a request without an effect now has no effect later.
func (m *Model) mayDropRequests(s *State) bool {
	switch m.Mutation {
	case RenewOfAnyone, RenewOfAnyToken, RenewCreates, ReleaseOfAnyone, ReleasePopsAgain, KeptIsRenewed, KeptIsReleasedAgain,
		OwnerReused, EndedOwnerListens, HandOverKeepsToken, TokenWithoutClock, TokenFromClockAlone, TokenForgottenEarly:
		return false
	}
	return !m.Stale || s.World.Copied == 2
}

// dropRequests removes requests of an owner that can have no effect.
func (m *Model) dropRequests(s *State, i int) {
	o, record := &s.Owners[i], &s.Server.Records[i]
	renewable := func(token uint8) bool { return record.Holds == 1 && s.Server.Token == token }
	if o.Double.Kind == Renew && !renewable(o.Double.Token) {
		o.Double = Double{}
	}
	if o.Phase < Ending {
		return
	}
	if o.Renew.Stage == Sent && !renewable(o.Renew.Token) {
		o.Renew = Call{}
	}
	if record.Tombstone == forever && !m.Loss {
		o.Acquire = [2]Call{}
		if o.Double.Kind == Acquire {
			o.Double = Double{}
		}
	}
	if record.Holds == 1 || record.Place > 0 || o.Acquire[0].Stage != None || o.Acquire[1].Stage != None || o.Double.Kind == Acquire {
		return
	}
	if o.Double.Kind == Release {
		o.Double = Double{}
	}
	if o.Phase == Ended {
		o.Release = Call{}
	}
}

// renumber renumbers the tokens without gaps.
func (s *State) renumber() {
	var used uint64
	s.eachToken(func(t *uint8) { used |= 1 << *t })
	used &^= 1
	if used&(used+2) == 0 { // no gap
		return
	}
	s.eachToken(func(t *uint8) {
		if *t > 0 {
			*t = uint8(bits.OnesCount64(used & (2<<*t - 1))) //nolint:gosec // at most 64
		}
	})
}

// highest returns the highest token in the state.
func (s *State) highest() (top uint8) {
	s.eachToken(func(t *uint8) { top = max(top, *t) })
	return top
}

// eachToken calls do with each token of the state.
func (s *State) eachToken(do func(*uint8)) {
	for _, t := range []*uint8{
		&s.World.Top, &s.World.Admin, &s.Server.Token, &s.Server.Last, &s.Copy.Token, &s.Copy.Last, &s.Guest.Token,
		&s.Guest.Renew.Token, &s.World.Kept.Token, &s.Server.Saved.Token, &s.Copy.Saved.Token,
	} {
		do(t)
	}
	for i := range s.Owners {
		o := &s.Owners[i]
		for _, t := range []*uint8{
			&o.Token, &o.Mark, &o.Signal, &o.Forced, &o.ForcedOut, &o.Acquire[0].Token, &o.Acquire[1].Token, &o.Renew.Token,
			&o.Saves.Token, &o.Told.Token, &o.Heard.Token,
		} {
			do(t)
		}
		if o.Double.Kind == Renew {
			do(&o.Double.Token)
		}
	}
}
