// A second client that has the lease of an owner, after Export and Resume.

package model

// Guest is a second client that has the lease of an owner: it was given the owner's name and
// token (Export), and renews the lease once before it believes that it has it (Resume). From
// then on both renew the lease, and either may release it. The owner may give its handle up
// without a release (Detach), which is the same as a crash. There is at most one guest.
type Guest struct {
	Of    uint8 // the owner plus one; 0 before an export
	Phase Phase // Fresh: was not started; Waiting: asks; then as an owner
	Token uint8
	Left  uint8 // ticks until the deadline
	Tomb  uint8 // 1 if an ACQUIRE of the owner was unanswered at the export

	Renew    Call
	Release  Call
	InTime   uint8 // 1 if RELEASE was first sent before the deadline
	Repeated uint8 // 1 if RELEASE was repeated

	// History variables of the checks.
	Released uint8 // 1 if a RELEASE of the guest was executed
	Freed    uint8 // 1 if that ended the lease
}

// valid returns whether the guest believes that it holds the lock.
func (g *Guest) valid() bool { return g.Left > 0 && g.Phase == Held }

// guestActions visits the actions of the guest, and the export that makes it.
func (w *walk) guestActions() {
	if !w.Resumes {
		return
	}
	g := &w.from.Guest
	if g.Of == 0 {
		for i := range w.Owners {
			if o := &w.from.Owners[i]; o.Phase == Held && o.Left > 0 {
				w.step(Export, i, 0)
			}
		}
		return
	}
	step := func(what ActionKind) { w.step(what, int(g.Of)-1, 0) }
	switch g.Phase {
	case Fresh, Waiting:
		step(Resume)
	case Held:
		if g.Left > 0 {
			step(GuestRenew)
		}
		step(GuestUnlock)
	case Ending:
		step(GuestRepeat)
		if g.Release.Stage == Answered {
			step(TakeGuestReleased)
		}
	}
	if g.Renew.Stage == Answered {
		step(TakeGuestRenewed)
	}
	if g.Renew.Stage == Sent {
		step(DoGuestRenew)
	}
	if g.Release.Stage == Sent {
		step(DoGuestRelease)
	}
	if g.Phase != Ended {
		step(GuestCrash)
	}
}

// applyGuest applies an action of the guest of owner i, and returns the promise that it breaks,
// or "".
func (m *Model) applyGuest(s *State, what ActionKind, i int) string {
	g, o := &s.Guest, &s.Owners[i]
	switch what {
	case Export:
		*g = Guest{Of: uint8(i) + 1, Token: o.Token} //nolint:gosec // at most MaxOwners
		if o.unanswered() && m.Mutation != ExportForgetsUnanswered {
			g.Tomb = 1
		}
	case Resume:
		g.Phase, g.Renew = Waiting, Call{Stage: Sent, Token: g.Token}
		if m.Mutation == ResumeUnconfirmed {
			g.Phase, g.Left = Held, m.Rules.deadline(0, m.TTL)
		}
	case GuestRenew:
		g.Renew = Call{Stage: Sent, Token: g.Token}
	case DoGuestRenew:
		return m.doGuestRenew(s, i)
	case TakeGuestRenewed:
		return m.guestRenewed(s, i)
	case GuestUnlock:
		g.unlock()
	case GuestRepeat:
		g.Release.Stage, g.Repeated = Sent, 1
	case DoGuestRelease:
		return m.doGuestRelease(s, i)
	case TakeGuestReleased:
		lost := g.Release.Code == Nothing && g.InTime == 1 && g.Repeated == 0
		g.Phase, g.Release = Ended, Call{}
		if lost && g.Freed == 1 {
			return "LOSS: Unlock of a resumed lease reports a loss, but it released the lock itself"
		}
	case GuestCrash:
		g.Phase, g.Left = Ended, 0
	}
	return ""
}

// unlock sends RELEASE.
func (g *Guest) unlock() {
	g.InTime = min(g.Left, 1)
	g.Phase, g.Left, g.Release = Ending, 0, Call{Stage: Sent, Token: g.Tomb}
}

// tick moves the clock of the guest.
func (g *Guest) tick(ttl uint8) {
	pass(&g.Left)
	if g.Renew.Stage != None && g.Renew.Age < ttl {
		g.Renew.Age++
	}
}

func (m *Model) doGuestRenew(s *State, i int) string {
	g, before := &s.Guest, s.Server
	bad := m.doRenew(s, i, &g.Renew)
	if v := &s.Server; m.Mutation == ResumeCreates && g.Phase == Waiting && v.Token == 0 {
		v.Token, v.Left, v.Records[i].Holds = g.Token, m.TTL, 1
		g.Renew.Code = Renewed
	}
	if bad == "" && before.Token == 0 && s.Server.Token > 0 {
		bad = "S5: Resume creates a lock"
	}
	return bad
}

// guestRenewed handles the answer to a RENEW of the guest.
func (m *Model) guestRenewed(s *State, i int) string {
	g := &s.Guest
	call := g.Renew
	g.Renew = Call{}
	switch {
	case g.Phase != Waiting && g.Phase != Held:
		return ""
	case call.Code == NotHeld:
		bad := ""
		if s.Server.Records[i].Holds == 1 && s.Server.Token == g.Token {
			bad = "LOSS: a resumed lease is refused or lost although it is held"
		}
		if g.Phase == Held {
			g.Left = 0
			g.unlock()
		} else {
			g.Phase = Ended
		}
		return bad
	case g.Phase == Held && g.Left == 0:
		return "" // the deadline has ended it
	}
	age := call.Age
	if m.Mutation == ResumeFromReply {
		age = 0
	}
	if left := m.Rules.deadline(age, m.TTL); left > 0 {
		g.Phase, g.Left = Held, max(g.Left, left)
	}
	return ""
}

// doGuestRelease executes the RELEASE of the guest. What it ends was not freed by the owner.
func (m *Model) doGuestRelease(s *State, i int) string {
	g, o := &s.Guest, &s.Owners[i]
	own, before := o.Freed, s.Server.Records[i].Holds
	bad := m.doRelease(s, i, &g.Release)
	o.Freed, g.Released = own, 1
	if before == 1 {
		g.Freed = 1
	}
	return bad
}

// checkGuest checks that a guest that believes it holds the lock has the lease on the server,
// unless the owner has released it. That is the one way in which the two disturb each other.
func (m *Model) checkGuest(s *State) string {
	g, v := &s.Guest, &s.Server
	if !g.valid() {
		return ""
	}
	i := g.Of - 1
	if s.Owners[i].Released == 1 || v.Records[i].Holds == 1 && v.Token == g.Token {
		return ""
	}
	return "S2: a client believes that it has resumed a lease, but the server could grant the lock to another"
}

// takenByGuest returns whether the guest of an owner has released its lease.
func (s *State) takenByGuest(i int) bool { return int(s.Guest.Of) == i+1 && s.Guest.Released == 1 }

// reduceGuest removes what cannot affect later states.
func (m *Model) reduceGuest(s *State) {
	g := &s.Guest
	if g.Of == 0 {
		return
	}
	i := int(g.Of) - 1
	if g.Phase >= Ending {
		if g.Renew.Stage == Answered || g.Renew.Stage == Sent && (s.Server.Records[i].Holds == 0 || s.Server.Token != g.Renew.Token) {
			g.Renew = Call{}
		}
		g.Renew.Age = 0
	}
	if g.Phase != Ended {
		return
	}
	o, record := &s.Owners[i], &s.Server.Records[i]
	over := record.Holds == 0 && record.Place == 0 && o.Acquire[0].Stage == None && o.Acquire[1].Stage == None && o.Double.Kind != Acquire
	if g.Release.Stage == Answered || over {
		g.Release = Call{}
	}
	last := Guest{Of: g.Of, Phase: Ended, Renew: g.Renew, Release: g.Release}
	if o.Phase < Ended || g.Release.Stage != None {
		last.Released = g.Released
	}
	*g = last
}
