// The rules of clients for the answers and messages of the server.

package model

// Rules are the rules of clients for answers and messages. Each method changes the owner
// as its client would, and returns the promise that this breaks, or "".
type Rules struct{ *Config }

// deadline returns the remaining ticks of a lease of length life whose request was sent
// age ticks ago.
func (r Rules) deadline(age, life uint8) uint8 {
	margin := r.Margin
	if r.Mutation == NoMargin {
		margin = 0
	}
	if age+margin >= life {
		return 0
	}
	return life - margin - age
}

// start sends the first ACQUIRE. It sets the anchor even before its answer.
func (r Rules) start(o *Owner, try bool) {
	o.Phase = Waiting
	if try {
		o.Try = 1
	}
	o.Acquire[0] = Call{Stage: Sent}
	o.Anchor = r.anchor(0)
}

func (r Rules) anchor(age uint8) uint8 {
	if r.Mutation == PlaceCountsAsTTL {
		return r.deadline(age, r.TTL)
	}
	return r.deadline(age, r.Place)
}

// poll sends another ACQUIRE. If as many as allowed are in flight, it abandons the first
// one, which may be delayed in the network.
func (r Rules) poll(o *Owner, heldBack bool) {
	c := 0
	if r.Calls > 1 && o.Acquire[0].Stage != None {
		c = 1
	}
	if o.Acquire[c].Stage != None {
		c = 0
		o.Unsure = 1
		if heldBack {
			o.Double = Double{Kind: Acquire, Original: 1}
		}
	}
	o.Acquire[c] = Call{Stage: Sent}
	if r.Mutation == AnchorUnanswered {
		o.Anchor = r.anchor(0)
	}
}

// acquired handles the answer to an ACQUIRE.
func (r Rules) acquired(o *Owner, c int) string {
	call := o.Acquire[c]
	o.Acquire[c], o.Answered = Call{}, 1
	switch {
	case o.Phase == Held && r.Mutation == LateQueuedEndsHold && call.Code == Queued:
		return r.lose(o)
	case o.Phase == Waiting:
	case r.Mutation == EndedOwnerListens && o.Phase >= Ending && call.Code == Granted:
		o.Phase = Waiting
	default:
		return "" // the owner no longer waits for it
	}
	switch call.Code {
	case Granted:
		if r.Mutation == DeadlineFromReply {
			call.Age = 0
		}
		if left := r.deadline(call.Age, r.TTL); left > 0 {
			r.hold(o, call.Token, left)
		} else if o.Try == 1 {
			r.release(o) // the caller gets "not acquired"
		}
	case Queued:
		r.queued(o, call)
	default:
		return "REFUSAL: an owner is refused that did not give up"
	}
	return ""
}

func (r Rules) queued(o *Owner, call Call) {
	switch {
	case o.Try == 1 && o.unanswered():
		r.release(o)
	case o.Try == 1:
		o.Phase = Ended
	default:
		o.Anchor = max(o.Anchor, r.anchor(call.Age))
		o.Mark = max(o.Mark, call.Token)
		if r.Mutation == MarkOfLastAnswer {
			o.Mark = call.Token
		}
	}
}

func (r Rules) hold(o *Owner, token, left uint8) {
	o.Phase, o.Token, o.Left, o.Keep = Held, token, left, r.MinHold
}

// signalled handles a message with a token.
func (r Rules) signalled(o *Owner) {
	if o.Try == 1 || o.Signal <= o.Mark && r.Mutation != StaleSignal {
		return
	}
	left := o.Anchor
	if r.Mutation == DeadlineFromSignal {
		left = r.deadline(0, r.Place)
	}
	if left > 0 { // otherwise it polls
		r.hold(o, o.Signal, left)
		o.Told = o.Heard
	}
}

// forced handles a message about a forced release.
func (r Rules) forced(o *Owner) string {
	taken := o.Forced
	o.Forced = 0
	if taken != o.Token && r.Mutation != ForceSignalsNoToken {
		return ""
	}
	return r.lose(o)
}

// renewed handles the answer to a RENEW.
func (r Rules) renewed(o *Owner) string {
	call := o.Renew
	o.Renew = Call{}
	switch {
	case o.Phase != Held:
		return ""
	case call.Code == NotHeld:
		return r.lose(o)
	case o.Left == 0 && r.Mutation != LateAnswerRevives:
		return "" // the deadline has ended it
	}
	age := call.Age
	if r.Mutation == RenewalFromReply {
		age = 0
	}
	left := max(o.Left, r.deadline(age, r.TTL))
	if o.Left == 0 && left > 0 {
		return "S5: an ended lease is valid again"
	}
	o.Left = left
	return ""
}

// toldLost is a broken promise only if the loss did not happen.
const toldLost = "the holder is told that it has lost the lock"

// lose ends a lease that the store reports lost.
// The lock is given back at once, because the work was not protected to its end.
func (r Rules) lose(o *Owner) string {
	o.Keep = 0
	r.release(o)
	o.Left, o.InTime = 0, 0
	return toldLost
}

// release sends RELEASE after a lease, to give up waiting, or to clean up.
func (r Rules) release(o *Owner) {
	if o.Phase == Held && o.Left > 0 {
		o.InTime = 1
	} else {
		o.Keep = 0
	}
	tomb := o.unanswered()
	if r.Mutation == PollsNeedNoTombstone {
		tomb = tomb && o.Answered == 0
	}
	o.Phase = Ending
	o.Release = Call{Stage: Sent, Keep: o.Keep}
	if tomb {
		o.Release.Token = 1
	}
	if r.Mutation != ValidUntilAnswered {
		o.Left = 0
	}
}

// repeat sends RELEASE again, with what is left of MinHold now.
func (r Rules) repeat(o *Owner) {
	o.Release.Stage, o.Release.Keep, o.Repeated = Sent, o.Keep, 1
}

// released handles the answer to a RELEASE. The owner is finished.
func (r Rules) released(o *Owner) string {
	repeated := o.Repeated == 1 && r.Mutation != RepeatedReleaseLost
	lost := o.Release.Code == Nothing && o.InTime == 1 && !repeated
	own := o.Freed == 1
	o.Phase, o.Release = Ended, Call{}
	if lost && own {
		return "LOSS: Unlock reports a loss, but it released the lock itself"
	}
	return ""
}
