package model

// Model is a Config at work. It is not safe for concurrent use.
type Model struct {
	Config
	Rules Rules

	clash   bool // an owner was sent a signal while another to it is under way
	keepOld bool // which of the two is lost
}

// New returns the model of a configuration.
func New(c Config) *Model {
	m := &Model{Config: c}
	m.Rules.Config = &m.Config
	return m
}

// Initial is the state in which everything begins. The server's clock may be ahead
// of the clients' from the beginning, so both are needed.
func (m *Model) Initial() []State {
	s := State{World: World{TopPast: topNow}}
	states := []State{s}
	if m.Drift {
		s.World.Ahead = 1
		states = append(states, s)
	}
	return states
}

// apply makes a step in place, and says what promise it has broken.
func (m *Model) apply(s *State, what What, i, c int) string {
	if i == nobody {
		return m.around(s, what)
	}
	o := &s.Owners[i]
	switch what {
	case Start:
		m.begin(s, i)
	case StartTry:
		m.Rules.start(o, true)
	case Poll:
		m.Rules.poll(o, false)
	case PollHeldBack:
		m.Rules.poll(o, true)
	case TakeAcquired:
		return m.truly(s, i, m.Rules.acquired(o, c))
	case TakeSignal:
		m.Rules.signalled(o)
	case TakeForced:
		return m.truly(s, i, m.Rules.forced(o))
	case SendRenew:
		o.Renew = Call{Stage: Sent, Token: o.Token}
	case TakeRenewed:
		return m.truly(s, i, m.Rules.renewed(o))
	case Unlock, Cancel:
		m.Rules.release(o)
	case RepeatRelease:
		o.Release.Stage, o.Repeated = Sent, 1
	case TakeReleased:
		return m.Rules.released(o)
	case Crash:
		o.Phase = Ended
	case DoAcquire, DoAcquireDoubled:
		if what == DoAcquireDoubled {
			m.double(s, i, Double{Kind: Acquire})
		}
		return m.doAcquire(s, i, &o.Acquire[c])
	case DoRenew, DoRenewDoubled:
		if what == DoRenewDoubled {
			m.double(s, i, Double{Kind: Renew, Token: o.Renew.Token})
		}
		return m.doRenew(s, i, &o.Renew)
	case DoRelease, DoReleaseDoubled:
		if what == DoReleaseDoubled {
			m.double(s, i, Double{Kind: Release, Token: o.Release.Token})
		}
		return m.doRelease(s, i, &o.Release)
	case DoDouble:
		return m.doDouble(s, i)
	}
	return ""
}

// begin starts an acquisition; with the bug that reuses an owner, a second one in
// which the server cannot tell it from the first.
func (m *Model) begin(s *State, i int) {
	o := &s.Owners[i]
	if o.Phase == Ended {
		*o = Owner{
			Life: 1, Acquire: o.Acquire, Renew: o.Renew, Release: o.Release, Double: o.Double,
			Forced: o.Forced, Excuse: o.Excuse, Line: o.Line,
		}
	}
	m.Rules.start(o, false)
}

// truly checks that a loss that a holder was told of is one.
func (m *Model) truly(s *State, i int, bad string) string {
	if bad != toldLost {
		return bad
	}
	o := &s.Owners[i]
	if s.Server.Seats[i].Holds == 1 && s.Server.Token == o.Token && s.World.Copied < 2 {
		return "LOSS: a holder is told that it has lost the lock, and it has not"
	}
	return ""
}

// double leaves a second copy of a request in the network.
func (m *Model) double(s *State, i int, d Double) { s.Owners[i].Double = d }

// around makes the steps of time and of administrators.
func (m *Model) around(s *State, what What) string {
	world := &s.World
	switch what {
	case Tick:
		m.serverTick(s)
		m.clientTick(s)
	case ServerTick:
		world.Ahead = 1
		m.serverTick(s)
	case ClientTick:
		world.Ahead = 0
		m.clientTick(s)
	case QueueDies:
		s.Server.dropQueue()
	case LoseData:
		s.Server = Server{}
		m.forgive(s, false)
	case MakeCopy:
		s.Copy, world.Copied = s.Server, 1
	case FallBack:
		s.Server, s.Copy, world.Copied = s.Copy, Server{}, 2
		m.forgive(s, true)
	case LookAtLock:
		world.Admin = s.Server.Token
	case DoForce:
		return m.doForce(s)
	case SetBack:
		m.setBack(s)
	}
	return ""
}

// forgive takes back what is not promised when the server has lost data.
func (m *Model) forgive(s *State, fallBack bool) {
	s.World.Fault = m.faultTime(fallBack)
	for i := range s.Owners {
		o := &s.Owners[i]
		o.Released, o.Buried, o.Freed, o.Line = 0, 0, 0, 0
	}
}

// setBack sets the server's clock back by a tick: whatever ends by it ends later.
func (m *Model) setBack(s *State) {
	v := &s.Server
	for _, left := range []*uint8{&v.Left, &v.LastLeft, &v.QueueLeft} {
		if *left > 0 && *left < forever {
			*left++
		}
	}
	for i := range v.Seats {
		if v.Seats[i].Place > 1 {
			v.Seats[i].Place++
		}
	}
	s.World.Back++
	s.World.TopPast--
}

func (m *Model) serverTick(s *State) {
	s.Server.tick()
	if s.World.Copied == 1 {
		s.Copy.tick()
	}
	for i := range s.Owners {
		if s.Owners[i].Line > 0 && !s.Server.alive(i) {
			s.leaveLine(i)
		}
	}
	world := &s.World
	pass(&world.Fault)
	if world.Back > 0 {
		world.Back--
	}
	if m.exact() && world.TopPast < topNow+m.Memory+m.StepBack+1 {
		world.TopPast++
	}
}

func (m *Model) clientTick(s *State) {
	for i := range s.Owners {
		o := &s.Owners[i]
		pass(&o.Left)
		pass(&o.Anchor)
		for _, call := range []*Call{&o.Acquire[0], &o.Acquire[1], &o.Renew} {
			if call.Stage != None && call.Age < max(m.TTL, m.Flight+1) {
				call.Age++
			}
		}
	}
}
