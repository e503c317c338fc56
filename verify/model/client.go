package model

// Rules are what clients do with answers and signals. Each function changes the
// owner as its client would, and says what promise that breaks, if one.
type Rules struct{ *Config }

// deadline is how many ticks are left, counted from the sending, of a life of so
// many.
func (r Rules) deadline(age, life uint8) uint8 {
	margin := r.Margin
	if r.Bug == NoMargin {
		margin = 0
	}
	if age+margin >= life {
		return 0
	}
	return life - margin - age
}

// start sends the first ACQUIRE. It counts for the anchor even before its answer.
func (r Rules) start(o *Owner, try bool) {
	o.Phase = Waiting
	if try {
		o.Try = 1
	}
	o.Acquire[0] = Call{Stage: Sent}
	o.Anchor = r.anchor(0)
}

func (r Rules) anchor(age uint8) uint8 {
	if r.Bug == PlaceCountsAsTTL {
		return r.deadline(age, r.TTL)
	}
	return r.deadline(age, r.Place)
}

// poll sends another ACQUIRE. Where as many as may be are under way the sender
// gives up the first of them, which may be held back in the network.
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
	if r.Bug == AnchorUnanswered {
		o.Anchor = r.anchor(0)
	}
}

// acquired is the answer to an ACQUIRE.
func (r Rules) acquired(o *Owner, c int) string {
	call := o.Acquire[c]
	o.Acquire[c], o.Answered = Call{}, 1
	switch {
	case o.Phase == Held && r.Bug == LateQueuedEndsHold && call.Code == Queued:
		return r.lose(o)
	case o.Phase == Waiting:
	case r.Bug == EndedOwnerListens && o.Phase >= Ending && call.Code == Granted:
		o.Phase = Waiting
	default:
		return "" // nobody waits for it any more
	}
	switch call.Code {
	case Granted:
		if r.Bug == DeadlineFromReply {
			call.Age = 0
		}
		if left := r.deadline(call.Age, r.TTL); left > 0 {
			r.hold(o, call.Token, left)
		} else if o.Try == 1 {
			r.release(o) // and says that it has not got it
		}
	case Queued:
		r.queued(o, call)
	default:
		return "REFUSAL: an owner is refused that was not given up"
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
		if r.Bug == MarkOfLastAnswer {
			o.Mark = call.Token
		}
	}
}

func (r Rules) hold(o *Owner, token, left uint8) {
	o.Phase, o.Token, o.Left = Held, token, left
}

// signalled is the arrival of a signal with a token.
func (r Rules) signalled(o *Owner) {
	if o.Try == 1 || o.Signal <= o.Mark && r.Bug != StaleSignal {
		return
	}
	left := o.Anchor
	if r.Bug == DeadlineFromSignal {
		left = r.deadline(0, r.Place)
	}
	if left > 0 { // otherwise it polls
		r.hold(o, o.Signal, left)
	}
}

// forced is the arrival of a signal that a token was taken by force.
func (r Rules) forced(o *Owner) string {
	taken := o.Forced
	o.Forced = 0
	if taken != o.Token && r.Bug != ForceSignalsNoToken {
		return ""
	}
	return r.lose(o)
}

// renewed is the answer to a RENEW.
func (r Rules) renewed(o *Owner) string {
	call := o.Renew
	o.Renew = Call{}
	switch {
	case o.Phase != Held:
		return ""
	case call.Code == NotHeld:
		return r.lose(o)
	case o.Left == 0 && r.Bug != LateAnswerRevives:
		return "" // the deadline has ended it
	}
	age := call.Age
	if r.Bug == RenewalFromReply {
		age = 0
	}
	left := max(o.Left, r.deadline(age, r.TTL))
	if o.Left == 0 && left > 0 {
		return "S5: a lease that was over is valid again"
	}
	o.Left = left
	return ""
}

// toldLost is no broken promise, if it is true.
const toldLost = "the holder is told that it has lost the lock"

// lose ends a hold because of what the store said.
func (r Rules) lose(o *Owner) string {
	r.release(o)
	o.Left, o.InTime = 0, 0
	return toldLost
}

// release sends RELEASE: after a hold, to give up waiting, and to clean up.
func (r Rules) release(o *Owner) {
	if o.Phase == Held && o.Left > 0 {
		o.InTime = 1
	}
	tomb := o.unanswered()
	if r.Bug == PollsNeedNoTombstone {
		tomb = tomb && o.Answered == 0
	}
	o.Phase = Ending
	o.Release = Call{Stage: Sent}
	if tomb {
		o.Release.Token = 1
	}
	if r.Bug != ValidUntilAnswered {
		o.Left = 0
	}
}

// released is the answer to a RELEASE. The owner is finished for ever.
func (r Rules) released(o *Owner) string {
	repeated := o.Repeated == 1 && r.Bug != RepeatedReleaseLost
	lost := o.Release.Code == Nothing && o.InTime == 1 && !repeated
	own := o.Freed == 1
	o.Phase, o.Release = Ended, Call{}
	if lost && own {
		return "LOSS: Unlock says that the lock was lost, but it was freed by this very Unlock"
	}
	return ""
}
