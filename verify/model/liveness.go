// The check that all waiters are served after all faults have stopped.

package model

// CheckLiveness checks that all waiters are served after all faults stop. Everything in
// the network is lost, no owner begins, each waiter polls once a tick and is answered, and
// each holder releases the lock. All waiters must get the lock within the time of one
// crashed holder, any number of crashed waiters, and the MinHold of each owner, and nothing may be left at the end. It
// ignores broken promises on the way, because the search finds them.
func (m *Model) CheckLiveness(from *State) string {
	s := *from
	s.World.Admin = 0
	s.Guest = Guest{} // it has crashed
	for i := range s.Owners {
		o := &s.Owners[i]
		if o.unanswered() {
			o.Unsure = 1
		}
		o.Acquire, o.Renew, o.Release, o.Double = [2]Call{}, Call{}, Call{}, Double{}
		o.Signal, o.Forced = 0, 0
	}
	for range m.TTL + s.World.Back + 1 + uint8(m.Owners)*m.MinHold { //nolint:gosec // at most MaxOwners
		served, bad := m.serveAll(&s)
		switch {
		case bad != "":
			return ""
		case served:
			return m.checkNothingLeft(&s)
		}
		m.serverTick(&s)
		m.clientTick(&s)
	}
	return "L3: a waiter waits for longer than one crash may take"
}

// serveAll lets all owners act without a tick and returns whether no owner waits.
func (m *Model) serveAll(s *State) (bool, string) {
	for busy := true; busy; {
		busy = false
		for i := range m.Owners {
			before := s.Owners[i].Phase
			if bad := m.serve(s, i); bad != "" {
				return false, bad
			}
			busy = busy || s.Owners[i].Phase != before
		}
	}
	for i := range m.Owners {
		if s.Owners[i].Phase == Waiting {
			return false, ""
		}
	}
	return true, ""
}

func (m *Model) serve(s *State, i int) string {
	o := &s.Owners[i]
	switch o.Phase {
	case Waiting:
		if m.Mutation == WaiterTrustsSignals && o.Mark > 0 {
			return ""
		}
		o.Acquire[0] = Call{Stage: Sent}
		bad := m.doAcquire(s, i, &o.Acquire[0])
		o.Signal, m.clash = 0, false
		if bad != "" {
			return bad
		}
		return m.Rules.acquired(o, 0)
	case Held:
		m.Rules.release(o)
	case Ending:
		m.Rules.repeat(o)
		if bad := m.doRelease(s, i, &o.Release); bad != "" {
			return bad
		}
		return m.Rules.released(o)
	}
	return ""
}

// checkNothingLeft advances time and checks that nothing is left.
func (m *Model) checkNothingLeft(s *State) string {
	for range m.longest() + s.World.Back {
		m.serverTick(s)
	}
	for i := range m.Owners {
		if s.Server.alive(i) {
			return "L2: a place outlives all owners"
		}
	}
	if s.Server.Token > 0 {
		return "L2: the lock outlives all owners"
	}
	if !m.QueueEnds {
		return ""
	}
	for range 4 * m.Place {
		m.serverTick(s)
	}
	if s.Server.first() != nobody {
		return "L2: the queue outlives all owners"
	}
	return ""
}
