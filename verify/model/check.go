package model

// Check says what promise a state breaks, or nothing.
func (m *Model) Check(s *State) string {
	for i := range m.Owners {
		if bad := m.checkHolder(s, i); bad != "" {
			return bad
		}
	}
	return m.checkKeys(s)
}

// checkHolder: whoever believes that it holds the lock has it on the server, so
// that nobody else can. It is more than S1, and holds at every instant.
func (m *Model) checkHolder(s *State, i int) string {
	o, v := &s.Owners[i], &s.Server
	forced := o.Token <= o.Excuse
	if !o.valid() || s.World.Fault > 0 || forced || v.Seats[i].Holds == 1 && v.Token == o.Token {
		return ""
	}
	for j := range m.Owners {
		if j != i && s.Owners[j].valid() {
			return "S1: two believe that they hold the lock"
		}
	}
	return "S2: an owner believes that it holds the lock, and the server would grant it to another"
}

// checkKeys: every key has an end, as near as it should be, and the queue and the
// places name the same owners.
func (m *Model) checkKeys(s *State) string {
	v, back := &s.Server, s.World.Back
	if v.Left > m.TTL+back {
		return "L2: the lock does not end within its TTL"
	}
	waiting := false
	for i := range m.Owners {
		seat := &v.Seats[i]
		waiting = waiting || seat.Place > 0
		switch {
		case seat.Place > m.Place+1+back:
			return "L2: a place does not end in time"
		case (seat.Place > 0) != (seat.Turn > 0):
			return "QUEUE: the queue and the places name different owners"
		case seat.Place > 0 && seat.Holds == 1:
			return "QUEUE: the holder is in the queue"
		}
	}
	if m.QueueEnds && waiting && (v.QueueLeft == 0 || v.QueueLeft > 4*m.Place+back) {
		return "L2: the queue does not end in time"
	}
	return ""
}

// Drain lets all faults stop: what is under way is lost, nobody begins, each who
// waits asks once a tick and is answered, each who holds the lock releases it.
// Then all who wait must get it in the time that a crashed holder and any number
// of crashed waiters may take together, and nothing may be left in the end. What
// else goes wrong on the way is left to the search to find.
func (m *Model) Drain(from *State) string {
	s := *from
	s.World.Admin = 0
	for i := range s.Owners {
		o := &s.Owners[i]
		if o.unanswered() {
			o.Unsure = 1
		}
		o.Acquire, o.Renew, o.Release, o.Double = [2]Call{}, Call{}, Call{}, Double{}
		o.Signal, o.Forced = 0, 0
	}
	for range m.TTL + s.World.Back + 1 {
		served, bad := m.drainNow(&s)
		switch {
		case bad != "":
			return ""
		case served:
			return m.nothingLeft(&s)
		}
		m.serverTick(&s)
		m.clientTick(&s)
	}
	return "L3: a waiter is stuck, or waits for more than what one crash may take"
}

// drainNow lets everybody act who can, without any time passing, and tells whether
// nobody waits any more.
func (m *Model) drainNow(s *State) (bool, string) {
	for busy := true; busy; {
		busy = false
		for i := range m.Owners {
			before := s.Owners[i].Phase
			if bad := m.drainOwner(s, i); bad != "" {
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

func (m *Model) drainOwner(s *State, i int) string {
	o := &s.Owners[i]
	switch o.Phase {
	case Waiting:
		if m.Bug == WaiterTrustsSignals && o.Mark > 0 {
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
		o.Release.Stage, o.Repeated = Sent, 1
		if bad := m.doRelease(s, i, &o.Release); bad != "" {
			return bad
		}
		return m.Rules.released(o)
	}
	return ""
}

// nothingLeft lets the time pass after which nothing may be left.
func (m *Model) nothingLeft(s *State) string {
	for range m.TTL + s.World.Back {
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
