package model

// Step names what leads from one state to the next.
type Step struct {
	What  What
	Owner int // or -1
	Call  int // which of its ACQUIREs

	// NewLost: of the signal that it sends and one that is under way the new one
	// is lost; otherwise the old one is.
	NewLost bool
}

// What is a kind of step.
type What uint8

// The steps.
const (
	Start What = iota
	StartTry
	Poll
	PollHeldBack // and the one given up before is held back in the network
	TakeAcquired
	TakeSignal
	TakeForced
	SendRenew
	TakeRenewed
	Unlock
	Cancel
	RepeatRelease
	TakeReleased
	Crash

	DoAcquire
	DoAcquireDoubled // and a double stays behind
	DoRenew
	DoRenewDoubled
	DoRelease
	DoReleaseDoubled
	DoDouble

	Tick
	ServerTick
	ClientTick
	QueueDies
	LoseData
	MakeCopy
	FallBack
	LookAtLock
	DoForce
	SetBack
)

// Visit is given each step that is possible in a state, the state after it, which
// is only lent, and the promise that the step itself has broken, if one.
type Visit func(Step, *State, string)

// Steps calls visit for all steps that are possible in a state.
func (m *Model) Steps(from *State, visit Visit) {
	w := walk{Model: m, from: from, visit: visit}
	fresh := false
	for i := range m.Owners {
		o := &from.Owners[i]
		if o.Phase == Fresh && fresh {
			continue // owners are alike: the first one stands for those that have not begun
		}
		fresh = fresh || o.Phase == Fresh
		w.ofOwner(i, o)
		w.ofNetwork(i, o)
	}
	w.ofTime()
	w.ofAdmin()
}

type walk struct {
	*Model
	from  *State
	visit Visit
	next  State
}

// step makes a step and shows what comes of it.
func (w *walk) step(what What, owner, call int) {
	for range 2 {
		w.next = *w.from
		s := &w.next
		bad := w.apply(s, what, owner, call)
		if bad == "" {
			w.tidy(s)
		}
		done := Step{what, owner, call, w.keepOld}
		again := w.clash && !w.keepOld
		w.clash, w.keepOld = false, false
		w.visit(done, s, bad)
		if !again {
			return
		}
		w.keepOld = true // once more, with the other signal lost
	}
}

func (w *walk) ofOwner(i int, o *Owner) {
	step := func(what What) { w.step(what, i, 0) }
	switch o.Phase {
	case Fresh:
		step(Start)
		if w.Tries {
			step(StartTry)
		}
		return
	case Waiting:
		w.polls(i, o)
		if o.Signal > 0 {
			step(TakeSignal)
		}
		if w.Cancels {
			step(Cancel)
		}
	case Held:
		if w.Renews && o.Left > 0 {
			step(SendRenew)
		}
		step(Unlock)
		if o.Forced > 0 {
			step(TakeForced)
		}
	case Ending:
		step(RepeatRelease)
		if o.Release.Stage == Answered {
			step(TakeReleased)
		}
	case Ended:
		if w.Bug == OwnerReused && o.Life == 0 {
			step(Start)
		}
	}
	for c := range o.Acquire {
		if o.Acquire[c].Stage == Answered {
			w.step(TakeAcquired, i, c)
		}
	}
	if o.Renew.Stage == Answered {
		step(TakeRenewed)
	}
	if w.Crashes && o.Phase != Ended {
		step(Crash)
	}
}

func (w *walk) polls(i int, o *Owner) {
	w.step(Poll, i, 0)
	if o.Acquire[0].Stage == Sent && (w.Calls == 1 || o.Acquire[1].Stage != None) && w.mayDouble(i) {
		w.step(PollHeldBack, i, 0)
	}
}

// mayDouble tells whether the network has room for a double of an owner's request.
// The one that the owner has makes way for it.
func (w *walk) mayDouble(i int) bool {
	n := 0
	for j := range w.from.Owners {
		if j != i && w.from.Owners[j].Double.Kind != NoRequest {
			n++
		}
	}
	return n < w.Copies
}

func (w *walk) ofNetwork(i int, o *Owner) {
	double := w.mayDouble(i)
	do := func(call Call, once, doubled What, c int) {
		if call.Stage != Sent {
			return
		}
		w.step(once, i, c)
		if double {
			w.step(doubled, i, c)
		}
	}
	for c := range o.Acquire {
		do(o.Acquire[c], DoAcquire, DoAcquireDoubled, c)
	}
	do(o.Renew, DoRenew, DoRenewDoubled, 0)
	do(o.Release, DoRelease, DoReleaseDoubled, 0)
	if o.Double.Kind != NoRequest {
		w.step(DoDouble, i, 0)
	}
}

func (w *walk) ofTime() {
	step := func(what What) { w.step(what, nobody, 0) }
	step(Tick)
	if w.Drift && w.from.World.Ahead == 0 {
		step(ServerTick)
	}
	if w.Drift && w.from.World.Ahead == 1 {
		step(ClientTick)
	}
	if !w.QueueEnds && w.from.Server.allDead() {
		step(QueueDies)
	}
	if w.from.World.Back < w.StepBack {
		step(SetBack)
	}
}

func (w *walk) ofAdmin() {
	step := func(what What) { w.step(what, nobody, 0) }
	world := &w.from.World
	if w.Loss {
		step(LoseData)
	}
	if w.Stale && world.Copied == 0 {
		step(MakeCopy)
	}
	if w.Stale && world.Copied == 1 {
		step(FallBack)
	}
	if world.Forces == w.Force {
		return
	}
	if w.from.Server.Token > 0 && world.Admin != w.from.Server.Token {
		step(LookAtLock)
	}
	if world.Admin > 0 {
		step(DoForce)
	}
}
