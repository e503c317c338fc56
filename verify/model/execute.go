package model

// scripts are those of the server, with its clock as it stands.
func (m *Model) scripts(s *State) Scripts {
	return Scripts{Config: &m.Config, Clock: m.clock(s)}
}

// clock is the token that the server's clock stands for. It is above all tokens,
// unless it was set back: then nothing is known of it but that.
func (m *Model) clock(s *State) uint8 {
	if s.World.clockAhead() {
		return s.highest() + 1
	}
	return 1
}

func (w *World) clockAhead() bool {
	return w.TopPast > topNow || w.TopPast == topNow && w.Back == 0
}

// highest is the highest token there is.
func (s *State) highest() uint8 {
	top := max(s.World.Top, s.World.Admin, s.Server.Token, s.Server.Last, s.Copy.Token, s.Copy.Last)
	for i := range s.Owners {
		o := &s.Owners[i]
		top = max(top, o.Token, o.Mark, o.Signal, o.Forced, o.Excuse, o.Acquire[0].Token, o.Acquire[1].Token, o.Renew.Token)
		if o.Double.Kind == Renew {
			top = max(top, o.Double.Token)
		}
	}
	return top
}

// doAcquire executes an ACQUIRE; call is nil for a double.
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
	}
	original := call != nil || o.Double.Original == 1
	if reply.Code != Refused && (o.Buried == 1 || o.Released == 1 && original) {
		return "L4: an owner that was released comes back"
	}
	if bad := m.granted(s, &before, top, eff); bad != "" {
		return bad
	}
	switch seat := &s.Server.Seats[i]; {
	case reply.Code == Granted && before.Seats[i].Holds == 1:
		if s.Server.Token != before.Token {
			return "S3: to ask again gives another token"
		}
	case before.Token > 0 && (s.Server.Token != before.Token || s.Server.Left != before.Left):
		return "S4: an ACQUIRE changes the lock of another"
	case reply.Code == Queued && place > 0 && seat.Place > 0 && o.Line == 0 && before.Seats[i].Turn == 0:
		s.joinLine(i)
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
	mine := before.Seats[i].Holds == 1 && before.Token == token
	switch {
	case before.Token == 0 && s.Server.Token > 0:
		return "S5: a renewal creates a lock"
	case !mine && (s.Server != before || reply.Code == Renewed):
		return "S4: a renewal changes, or confirms, what is not its own"
	}
	return ""
}

func (m *Model) doRelease(s *State, i int, call *Call) string {
	o := &s.Owners[i]
	tomb := o.Double.Token == 1
	if call != nil {
		tomb = call.Token == 1
	}
	before, top := s.Server, s.highest()
	reply, eff := m.scripts(s).Release(&s.Server, i, tomb)
	if call != nil {
		call.Stage, call.Code = Answered, reply.Code
	}
	o.Released = 1
	if tomb {
		o.Buried = 1
	}
	if before.Seats[i].Holds == 1 {
		o.Freed = 1
	}
	s.leaveLine(i)
	if seat := &s.Server.Seats[i]; seat.Holds == 1 || seat.Place > 0 || seat.Turn > 0 {
		return "L4: a RELEASE leaves something of its owner behind"
	}
	if before.Seats[i].Holds == 0 && (s.Server.Token != before.Token || s.Server.Left != before.Left) {
		return "S4: a RELEASE changes the lock of another"
	}
	return m.granted(s, &before, top, eff)
}

// doDouble executes what the network has doubled, or held back.
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
	_, eff := m.scripts(s).Force(&s.Server, s.World.Admin)
	if eff.Forced == nobody {
		return ""
	}
	s.World.Forces++
	o := &s.Owners[eff.Forced]
	o.Excuse = before.Token
	m.send(&o.Forced, before.Token)
	if before.Token != s.World.Admin {
		return "S4: a FORCE takes the lock from another than it was meant for"
	}
	return m.granted(s, &before, top, eff)
}

// granted checks a grant, and sends the signal. An owner that asks for itself may
// have come without having been in the queue.
func (m *Model) granted(s *State, before *Server, top uint8, eff Effects) string {
	if eff.Granted == nobody {
		return ""
	}
	w := eff.Granted
	token := s.Server.Token
	if token <= top {
		return "S3: the token of a grant is not above all before it"
	}
	if m.exact() {
		m.noteToken(s, token)
	}
	line := s.Owners[w].Line
	for u := range s.Owners {
		other := s.Owners[u].Line
		overtaken := line > 0 && other < line || line == 0 && before.Seats[w].Turn == 0
		if u != w && other > 0 && overtaken {
			return "FIFO: one who waits is overtaken"
		}
	}
	s.leaveLine(w)
	o := &s.Owners[w]
	if !eff.Signal || o.Phase != Waiting {
		return ""
	}
	m.send(&o.Signal, token)
	return ""
}

// send puts a signal on its way. If there is one on its way already, one of the two
// is lost, be it this one or that.
func (m *Model) send(way *uint8, token uint8) {
	if *way > 0 {
		m.clash = true
		if m.keepOld {
			return
		}
	}
	*way = token
}

// noteToken keeps where the clock stands beside the highest token, and for how
// long the server remembers the last.
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
	if world.TopPast < topNow && m.Bug != TokenForgottenEarly {
		lead = topNow - world.TopPast
	}
	s.Server.LastLeft = lead + m.Memory
}

// joinLine puts an owner behind all who have been alive in the queue until now.
func (s *State) joinLine(i int) {
	line := uint8(0)
	for j := range s.Owners {
		line = max(line, s.Owners[j].Line)
	}
	s.Owners[i].Line = line + 1
}

func (s *State) leaveLine(i int) {
	line := s.Owners[i].Line
	if line == 0 {
		return
	}
	for j := range s.Owners {
		if s.Owners[j].Line > line {
			s.Owners[j].Line--
		}
	}
	s.Owners[i].Line = 0
}
