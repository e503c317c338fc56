// The promises that every state must keep.

package model

// Check returns the promise that a state breaks, or "".
func (m *Model) Check(s *State) string {
	for i := range m.Owners {
		if bad := m.checkHolder(s, i); bad != "" {
			return bad
		}
	}
	if bad := m.checkGuest(s); bad != "" {
		return bad
	}
	if s.Server.Saved != s.World.Kept {
		return "S11: the state is not that of the last save of the holders"
	}
	return m.checkKeys(s)
}

// checkHolder checks that an owner that believes it holds the lock is the holder on the
// server. This is stronger than S1.
func (m *Model) checkHolder(s *State, i int) string {
	o, v := &s.Owners[i], &s.Server
	forced := o.Token <= o.ForcedOut
	if !o.valid() || s.World.Fault > 0 || forced || s.takenByGuest(i) || v.Records[i].Holds == 1 && v.Token == o.Token {
		return ""
	}
	for j := range m.Owners {
		if j != i && s.Owners[j].valid() {
			return "S1: two owners believe that they hold the lock"
		}
	}
	return "S2: an owner believes that it holds the lock, but the server could grant it to another"
}

// checkKeys checks that every key expires in time, and that the queue and the places name
// the same owners.
func (m *Model) checkKeys(s *State) string {
	v, back := &s.Server, s.World.Back
	if v.Left > m.longest()+back {
		return "L2: the lock does not expire within its TTL"
	}
	kept := v.kept()
	switch {
	case s.World.Rest > 0 && !kept:
		return "H1: a released lock can be granted before its MinHold has passed"
	case kept && v.Left != s.World.Rest && s.World.Copied < 2:
		return "H2: a released lock stays taken for longer than its MinHold"
	}
	waiting := false
	for i := range m.Owners {
		record := &v.Records[i]
		waiting = waiting || record.Place > 0
		switch {
		case record.Place > m.Place+1+back:
			return "L2: a place does not expire in time"
		case (record.Place > 0) != (record.Position > 0):
			return "QUEUE: the queue and the places name different owners"
		case record.Place > 0 && record.Holds == 1:
			return "QUEUE: the holder is in the queue"
		}
	}
	if m.QueueEnds && waiting && (v.QueueLeft == 0 || v.QueueLeft > 4*m.Place+back) {
		return "L2: the queue does not expire in time"
	}
	return ""
}
