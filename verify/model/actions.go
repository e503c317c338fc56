// The actions of the model, and the actions that a state enables.

package model

// Action is a transition from one state to the next.
type Action struct {
	ActionKind ActionKind
	Owner      int // or nobody
	Call       int // index of its ACQUIRE

	// NewLost selects which message is lost if the action sends one while another
	// one is in flight: the new one, otherwise the old one.
	NewLost bool
}

// ActionKind is a kind of action.
type ActionKind uint8

// Kinds of actions.
const (
	Start ActionKind = iota
	StartTry
	Poll
	PollHeldBack // the network delays the abandoned request
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
	SendSave
	RepeatSave // with a new number; for one mutation
	TakeDenied

	DoAcquire
	DoAcquireDoubled // a duplicate stays in the network
	DoRenew
	DoRenewDoubled
	DoRelease
	DoReleaseDoubled
	DoDouble
	DoSave
	DoSaveWrite // after DoSave has looked; for one mutation

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

	Export // and the actions of the guest
	Resume
	GuestRenew
	DoGuestRenew
	TakeGuestRenewed
	GuestUnlock
	GuestRepeat
	DoGuestRelease
	TakeGuestReleased
	GuestCrash
)

// Visit is called for each enabled action, with the next state, which is valid during the
// call only, and the promise that the action breaks, or "".
type Visit func(Action, *State, string)

// Successors calls visit for all actions that are enabled in a state.
func (m *Model) Successors(from *State, visit Visit) {
	w := walk{Model: m, from: from, visit: visit}
	fresh := false
	for i := range m.Owners {
		o := &from.Owners[i]
		if o.Phase == Fresh && fresh {
			continue // symmetry: the first fresh owner represents all
		}
		fresh = fresh || o.Phase == Fresh
		w.ownerActions(i, o)
		w.networkActions(i, o)
		w.saveActions(i, o)
	}
	w.guestActions()
	w.worldActions()
}

type walk struct {
	*Model
	from  *State
	visit Visit
	next  State
}

// step applies an action and visits the result.
func (w *walk) step(what ActionKind, owner, call int) {
	for range 2 {
		w.next = *w.from
		s := &w.next
		bad := w.apply(s, what, owner, call)
		if bad == "" {
			w.reduce(s)
		}
		done := Action{what, owner, call, w.keepOld}
		again := w.clash && !w.keepOld
		w.clash, w.keepOld = false, false
		w.visit(done, s, bad)
		if !again {
			return
		}
		w.keepOld = true // again, with the other message lost
	}
}

func (w *walk) ownerActions(i int, o *Owner) {
	step := func(what ActionKind) { w.step(what, i, 0) }
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
		if w.Mutation == OwnerReused && o.Reused == 0 {
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

// mayDouble returns whether the network has room for a duplicate of an owner's request. It
// replaces an existing duplicate of the same owner.
func (w *walk) mayDouble(i int) bool {
	n := 0
	for j := range w.from.Owners {
		if j != i && w.from.Owners[j].Double.Kind != NoRequest {
			n++
		}
	}
	return n < w.Copies
}

func (w *walk) networkActions(i int, o *Owner) {
	double := w.mayDouble(i)
	do := func(call Call, once, doubled ActionKind, c int) {
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

// worldActions visits the actions of time, faults and administrators.
func (w *walk) worldActions() {
	step := func(when bool, what ActionKind) {
		if when {
			w.step(what, nobody, 0)
		}
	}
	world, v := &w.from.World, &w.from.Server
	step(true, Tick)
	step(w.Drift && world.Ahead == 0, ServerTick)
	step(w.Drift && world.Ahead == 1, ClientTick)
	step(!w.QueueEnds && v.allDead(), QueueDies)
	step(world.Back < w.StepBack, SetBack)
	step(w.Loss, LoseData)
	step(w.Stale && world.Copied == 0, MakeCopy)
	step(w.Stale && world.Copied == 1, FallBack)
	step(world.Forces < w.Force && v.Token > 0 && world.Admin != v.Token, LookAtLock)
	step(world.Forces < w.Force && world.Admin > 0, DoForce)
}
