// The execution of requests on the server, and the checks of their effects.

package model

// scripts returns the scripts with the current clock of the server.
func (m *Model) scripts(s *State) Scripts {
	return Scripts{Config: &m.Config, Clock: m.clock(s)}
}

// clock returns the token of the server's clock. It is above all tokens unless the clock
// was set back.
func (m *Model) clock(s *State) uint8 {
	if s.World.clockAhead() {
		return s.highest() + 1
	}
	return 1
}

func (w *World) clockAhead() bool {
	return w.TopPast > topNow || w.TopPast == topNow && w.Back == 0
}

// doAcquire executes an ACQUIRE. call is nil for a duplicate.
func (m *Model) doAcquire(s *State, i int, call *Call) string {
	o := &s.Owners[i]
	before, top := s.Server, s.highest()
	place := m.Place
	if o.Try == 1 {
		place = 0
	}
	reply, eff := m.scripts(s).Acquire(&s.Server, i, place)
	if call != nil {
		call.Stage, call.Code, call.Token = Answered, reply.Code, reply.Token
		o.Told = s.Server.Saved
	}
	original := call != nil || o.Double.Original == 1
	if reply.Code != Refused && (o.WroteTombstone == 1 || o.Released == 1 && original) {
		return "L4: a released owner returns"
	}
	if bad := m.checkGrant(s, &before, top, eff); bad != "" {
		return bad
	}
	switch record := &s.Server.Records[i]; {
	case reply.Code == Granted && before.Records[i].Holds == 1:
		if s.Server.Token != before.Token {
			return "S3: asking again returns another token"
		}
	case before.Token > 0 && (s.Server.Token != before.Token || s.Server.Left != before.Left):
		return "S4: an ACQUIRE changes the lease of another owner"
	case reply.Code == Queued && place > 0 && record.Place > 0 && o.Order == 0 && before.Records[i].Position == 0:
		s.joinOrder(i)
	}
	return ""
}

func (m *Model) doRenew(s *State, i int, call *Call) string {
	token := s.Owners[i].Double.Token
	if call != nil {
		token = call.Token
	}
	before := s.Server
	reply := m.scripts(s).Renew(&s.Server, i, token)
	if call != nil {
		call.Stage, call.Code = Answered, reply.Code
	}
	mine := before.Records[i].Holds == 1 && before.Token == token
	switch {
	case before.Token == 0 && s.Server.Token > 0:
		return "S5: a renewal creates a lock"
	case !mine && (s.Server != before || reply.Code == Renewed):
		return "S4: a renewal changes or confirms the lease of another owner"
	}
	return ""
}

func (m *Model) doRelease(s *State, i int, call *Call) string {
	o := &s.Owners[i]
	tomb, keep := o.Double.Token == 1, o.Double.Keep
	if call != nil {
		tomb, keep = call.Token == 1, call.Keep
	}
	before, top := s.Server, s.highest()
	reply, eff := m.scripts(s).Release(&s.Server, i, tomb, keep)
	if call != nil {
		call.Stage, call.Code, call.Keep = Answered, reply.Code, 0
	}
	o.Released = 1
	if tomb {
		o.WroteTombstone = 1
	}
	if before.Records[i].Holds == 1 {
		o.Freed, s.World.Rest = 1, keep
	}
	s.leaveOrder(i)
	if record := &s.Server.Records[i]; record.Holds == 1 || record.Place > 0 || record.Position > 0 {
		return "L4: a RELEASE leaves a record of its owner"
	}
	if before.Records[i].Holds == 0 && (s.Server.Token != before.Token || s.Server.Left != before.Left) {
		return "S4: a RELEASE changes the lease of another owner"
	}
	return m.checkGrant(s, &before, top, eff)
}

// doDouble executes a duplicated or delayed request.
func (m *Model) doDouble(s *State, i int) string {
	switch s.Owners[i].Double.Kind {
	case Acquire:
		return m.doAcquire(s, i, nil)
	case Renew:
		return m.doRenew(s, i, nil)
	default:
		return m.doRelease(s, i, nil)
	}
}

func (m *Model) doForce(s *State) string {
	before, top := s.Server, s.highest()
	reply, eff := m.scripts(s).Force(&s.Server, s.World.Admin)
	if reply.Code != HadLock {
		return ""
	}
	s.World.Forces++
	s.World.Rest = 0
	if eff.Forced != nobody {
		o := &s.Owners[eff.Forced]
		o.ForcedOut = before.Token
		m.send(&o.Forced, before.Token)
	}
	if before.Token != s.World.Admin {
		return "S4: a FORCE takes the lock from another owner"
	}
	return m.checkGrant(s, &before, top, eff)
}

// checkGrant checks a grant and sends its message. Messages with token 0 are not modelled,
// because an owner may poll at any time. The caller of ACQUIRE may be granted the lock
// without having been in the queue.
func (m *Model) checkGrant(s *State, before *Server, top uint8, eff Effects) string {
	if eff.Granted == nobody {
		return ""
	}
	w := eff.Granted
	token := s.Server.Token
	if eff.Signal && s.Server.Left > m.Place && m.Mutation != GrantOfWholeTTL {
		return "L2: a hand-over lasts longer than a place"
	}
	if token <= top {
		return "S3: the token of a grant is not above all earlier ones"
	}
	if m.exact() {
		m.noteToken(s, token)
	}
	line := s.Owners[w].Order
	for u := range s.Owners {
		other := s.Owners[u].Order
		overtaken := line > 0 && other < line || line == 0 && before.Records[w].Position == 0
		if u != w && other > 0 && overtaken {
			return "FIFO: a waiter is overtaken"
		}
	}
	s.leaveOrder(w)
	o := &s.Owners[w]
	if !eff.Signal || o.Phase != Waiting {
		return ""
	}
	if m.send(&o.Signal, token) && m.Mutation != SignalTellsNothing {
		o.Heard = s.Server.Saved
	}
	return ""
}

// send sends a message. If another one is in flight, either of the two is lost. It reports whether
// the new one is in flight.
func (m *Model) send(way *uint8, token uint8) bool {
	if *way > 0 {
		m.clash = true
		if m.keepOld {
			return false
		}
	}
	*way = token
	return true
}

// noteToken records the clock relative to the highest token, and how long the server
// remembers the last token.
func (m *Model) noteToken(s *State, token uint8) {
	world := &s.World
	if world.clockAhead() {
		world.TopPast = topNow
	}
	world.Top = token
	if m.Memory == 0 {
		return
	}
	lead := uint8(0)
	if world.TopPast < topNow && m.Mutation != TokenForgottenEarly {
		lead = topNow - world.TopPast
	}
	s.Server.LastLeft = lead + m.Memory
}

// joinOrder puts an owner behind all that are in the queue without a gap.
func (s *State) joinOrder(i int) {
	line := uint8(0)
	for j := range s.Owners {
		line = max(line, s.Owners[j].Order)
	}
	s.Owners[i].Order = line + 1
}

func (s *State) leaveOrder(i int) {
	line := s.Owners[i].Order
	if line == 0 {
		return
	}
	for j := range s.Owners {
		if s.Owners[j].Order > line {
			s.Owners[j].Order--
		}
	}
	s.Owners[i].Order = 0
}
