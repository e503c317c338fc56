// The initial states, and the state after each action.

package model

// Model is the model of a configuration. It is not safe for concurrent use.
type Model struct {
	Config
	Rules Rules

	clash   bool // an owner was sent a message while another one was in flight
	keepOld bool // whether the newer of the two is lost
}

// New returns the model of a configuration.
func New(c Config) *Model {
	m := &Model{Config: c}
	m.Rules.Config = &m.Config
	return m
}

// Initial returns the initial states. There are two if clocks drift, because the server's
// clock may be ahead from the start.
func (m *Model) Initial() []State {
	s := State{World: World{TopPast: topNow}}
	states := []State{s}
	if m.Drift {
		s.World.Ahead = 1
		states = append(states, s)
	}
	return states
}

// apply applies an action in place and returns the promise that it breaks, or "".
func (m *Model) apply(s *State, what ActionKind, i, c int) string {
	if i == nobody {
		return m.applyEnvironment(s, what)
	}
	if what >= Export {
		return m.applyGuest(s, what, i)
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
		waited := o.Phase == Waiting
		bad := m.checkLoss(s, i, m.Rules.acquired(o, c))
		if bad == "" && waited {
			bad = m.checkTold(s, i)
		}
		return bad
	case TakeSignal:
		m.Rules.signalled(o)
		return m.checkTold(s, i)
	case TakeForced:
		return m.checkLoss(s, i, m.Rules.forced(o))
	case SendRenew:
		o.Renew = Call{Stage: Sent, Token: o.Token}
	case TakeRenewed:
		return m.checkLoss(s, i, m.Rules.renewed(o))
	case Unlock, Cancel:
		m.Rules.release(o)
	case RepeatRelease:
		m.Rules.repeat(o)
	case TakeReleased:
		return m.Rules.released(o)
	case Crash:
		o.Phase = Ended
	case DoAcquire, DoAcquireDoubled:
		if what == DoAcquireDoubled {
			o.Double = Double{Kind: Acquire}
		}
		return m.doAcquire(s, i, &o.Acquire[c])
	case DoRenew, DoRenewDoubled:
		if what == DoRenewDoubled {
			o.Double = Double{Kind: Renew, Token: o.Renew.Token}
		}
		return m.doRenew(s, i, &o.Renew)
	case DoRelease, DoReleaseDoubled:
		if what == DoReleaseDoubled {
			o.Double = Double{Kind: Release, Token: o.Release.Token, Keep: o.Release.Keep}
		}
		return m.doRelease(s, i, &o.Release)
	case DoDouble:
		return m.doDouble(s, i)
	default:
		return m.applySave(s, what, i, c)
	}
	return ""
}

// begin starts an acquisition. With the mutation OwnerReused it may start a second one with
// the same owner.
func (m *Model) begin(s *State, i int) {
	o := &s.Owners[i]
	if o.Phase == Ended {
		*o = Owner{
			Reused: 1, Acquire: o.Acquire, Renew: o.Renew, Release: o.Release, Double: o.Double,
			Forced: o.Forced, ForcedOut: o.ForcedOut, Order: o.Order,
		}
	}
	m.Rules.start(o, false)
}

// checkLoss checks that a reported loss is true.
func (m *Model) checkLoss(s *State, i int, bad string) string {
	if bad != toldLost {
		return bad
	}
	o := &s.Owners[i]
	if s.Server.Records[i].Holds == 1 && s.Server.Token == o.Token && s.World.Copied < 2 {
		return "LOSS: a holder is told of a loss that did not happen"
	}
	return ""
}

// applyEnvironment applies actions of time, faults and administrators.
func (m *Model) applyEnvironment(s *State, what ActionKind) string {
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
		m.suspendChecks(s, false)
	case MakeCopy:
		s.Copy, world.Copied = s.Server, 1
	case FallBack:
		s.Server, s.Copy, world.Copied = s.Copy, Server{}, 2
		m.suspendChecks(s, true)
	case LookAtLock:
		world.Admin = s.Server.Token
	case DoForce:
		return m.doForce(s)
	case SetBack:
		m.setBack(s)
	}
	return ""
}

// suspendChecks resets the history of promises that do not cover lost data.
func (m *Model) suspendChecks(s *State, fallBack bool) {
	s.World.Fault, s.World.Rest = m.faultTime(fallBack), 0
	s.World.Kept = s.Server.Saved
	for i := range s.Owners {
		o := &s.Owners[i]
		o.Released, o.WroteTombstone, o.Freed, o.Order = 0, 0, 0, 0
	}
}

// setBack sets the server's clock back by a tick. Everything expires one tick later.
func (m *Model) setBack(s *State) {
	v := &s.Server
	for _, left := range []*uint8{&v.Left, &v.LastLeft, &v.QueueLeft, &s.World.Rest} {
		if *left > 0 && *left < forever {
			*left++
		}
	}
	for i := range v.Records {
		if v.Records[i].Place > 1 {
			v.Records[i].Place++
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
		if s.Owners[i].Order > 0 && !s.Server.alive(i) {
			s.leaveOrder(i)
		}
	}
	world := &s.World
	pass(&world.Fault)
	pass(&world.Rest)
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
		pass(&o.Keep)
		pass(&o.Anchor)
		for _, call := range []*Call{&o.Acquire[0], &o.Acquire[1], &o.Renew} {
			if call.Stage != None && call.Age < max(m.TTL, m.MaxDelay+1) {
				call.Age++
			}
		}
	}
	s.Guest.tick(m.TTL)
}
