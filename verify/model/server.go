// The scripts of the server in Go, and their answers.

package model

// Server holds the keys of one lock.
type Server struct {
	Records   [MaxOwners]Record
	Token     uint8 // token of the holder, 0 if the lock is free
	Left      uint8 // ticks until the lease expires
	Last      uint8 // the last token granted, 0 if forgotten; kept only if clocks are set back
	LastLeft  uint8
	QueueLeft uint8 // ticks until the queue and the places expire; see Config.QueueEnds
	Saved     Saved
}

// Record is what the server has of one owner.
type Record struct {
	Holds     uint8 // 1 if it holds the lock
	Place     uint8 // 0: none, 1: expired, otherwise ticks until it expires, plus 1
	Position  uint8 // position in the queue from 1, 0 if not queued
	Tombstone uint8 // ticks until its tombstone expires
}

// Code is an answer of the server.
type Code uint8

// Answers to ACQUIRE, to RENEW, to RELEASE and FORCE, and to SAVE.
const (
	Refused Code = iota
	Granted
	Queued // another owner holds the lock

	Renewed
	NotHeld

	Nothing
	HadLock
	HadPlace

	Stored
)

// Reply is an answer with its values.
type Reply struct {
	Code  Code
	Token uint8 // Granted: the token of the lease. Queued: the token of the holder
	Left  uint8 // Queued: ticks until the lease expires
	Head  bool  // Queued: whether the owner is first in the queue
}

// Effects are the effects of a script besides its answer.
type Effects struct {
	Granted int  // the owner that was granted the lock, or nobody
	Signal  bool // whether it was sent a message with the token
	Forced  int  // the owner that was forced out and sent token 0, or nobody
	Asked   int  // the new head of the queue that was sent token 0, or nobody
	Arrives bool // whether the owner of the request got a place that it did not have
}

const nobody = -1

var noEffects = Effects{Granted: nobody, Forced: nobody, Asked: nobody}

// Scripts executes the scripts, with the mutation of its configuration.
type Scripts struct {
	*Config
	Clock uint8 // the token of the clock
}

// Acquire is acquire.lua. A place of 0 means a try.
func (x Scripts) Acquire(v *Server, o int, place uint8) (Reply, Effects) {
	eff := noEffects
	me := &v.Records[o]
	if me.Tombstone > 0 {
		return Reply{Code: Refused}, eff
	}
	switch {
	case me.Holds == 1:
		x.reacquire(v)
		return Reply{Code: Granted, Token: v.Token}, eff
	case v.Token == 0, x.Mutation == KeptIsFree && v.kept():
		token := x.token(v.Last)
		next, left := nobody, uint8(0)
		if x.Mutation == NewcomerBarges {
			v.leave(o)
			me.Place = 0
		} else {
			next, left = x.next(v)
		}
		if next == nobody || next == o {
			x.grant(v, o, token, x.TTL)
			eff.Granted = o
			return Reply{Code: Granted, Token: token}, eff
		}
		if x.Mutation == NoAdvance {
			x.requeue(v, next, left)
			break
		}
		x.grant(v, next, token, left)
		eff.Granted, eff.Signal = next, true
	}
	if place > 0 {
		eff.Arrives = me.Place == 0
		x.enqueue(v, o, place)
	}
	if place == 0 && eff.Granted != nobody { // only waiters blocked it
		return Reply{Code: Queued, Token: x.mark(v)}, eff
	}
	reply := Reply{Code: Queued, Token: x.mark(v), Left: v.Left, Head: place > 0 && me.Position == 1}
	return reply, eff
}

// mark returns the token of an answer "queued".
func (x Scripts) mark(v *Server) uint8 {
	if x.ClockMarks {
		return max(x.Clock-1, v.Token)
	}
	return v.Token
}

// reacquire is an ACQUIRE by the holder.
func (x Scripts) reacquire(v *Server) {
	switch x.Mutation {
	case AgainShortens:
		v.Left = x.Place
	case AgainNewToken:
		v.Token = x.token(v.Last)
		v.Left = x.TTL
	default:
		v.Left = max(v.Left, x.TTL)
	}
}

// token returns the next fencing token.
func (x Scripts) token(last uint8) uint8 {
	switch x.Mutation {
	case TokenWithoutClock:
		return last + 1
	case TokenFromClockAlone:
		return x.Clock
	default:
		return max(last+1, x.Clock)
	}
}

// grant grants the lock to owner o.
func (x Scripts) grant(v *Server, o int, token, left uint8) {
	v.unhold()
	v.Records[o].Holds = 1
	v.Token, v.Left = token, left
	if x.exact() {
		v.Last, v.LastLeft = token, forever // see Model.checkGrant
	}
	if x.Mutation == GrantWithoutEnd {
		v.Left = forever
	}
}

// next removes the first owner with a live place from the queue, and all owners before
// it. It returns the owner and the rest of its place.
func (x Scripts) next(v *Server) (int, uint8) {
	for {
		o := v.first()
		if o == nobody {
			return nobody, 0
		}
		place := v.Records[o].Place
		x.pop(v, o)
		switch {
		case x.Mutation == DeadAreServed:
			return o, max(place, x.Place+1) - 1
		case place > 1 && x.Mutation == GrantOfWholeTTL:
			return o, x.TTL
		case place > 1 && x.Mutation == GrantPastThePlace:
			return o, place - 1
		case place > 1: // longer than a place only if the clock was set back
			return o, min(place-1, x.Place)
		}
	}
}

func (x Scripts) pop(v *Server, o int) {
	v.leave(o)
	if x.Mutation != GrantKeepsPlace {
		v.Records[o].Place = 0
		v.endEmptyQueue()
	}
}

// requeue puts the owner that next removed back at the head of the queue.
func (x Scripts) requeue(v *Server, o int, left uint8) {
	for i := range v.Records {
		if v.Records[i].Position > 0 {
			v.Records[i].Position++
		}
	}
	v.Records[o].Position, v.Records[o].Place = 1, left+1
}

// enqueue gives an owner a place or extends it.
func (x Scripts) enqueue(v *Server, o int, place uint8) {
	me := &v.Records[o]
	known := me.Place > 0
	if !known || x.Mutation != PollKeepsEnd {
		me.Place = place + 1
	}
	switch {
	case !known:
		v.dropExpired(2)
		if v.first() == nobody {
			v.QueueLeft = 0 // the key is created anew
		}
		x.push(v, o)
	case x.Mutation == PollLosesTurn && me.Position > 0:
		v.leave(o)
		x.push(v, o)
	}
	if x.QueueEnds && v.QueueLeft < 2*place {
		v.QueueLeft = 4 * place
		if x.Mutation == QueueWithoutEnd {
			v.QueueLeft = forever
		}
	}
}

func (x Scripts) push(v *Server, o int) {
	position := uint8(1)
	for i := range v.Records {
		switch {
		case i == o || v.Records[i].Position == 0:
		case x.Mutation == LastInFirstOut:
			v.Records[i].Position++
		default:
			position = max(position, v.Records[i].Position+1)
		}
	}
	v.Records[o].Position = position
}

// handOver grants the lock to the next waiter or frees it.
func (x Scripts) handOver(v *Server) Effects {
	eff := noEffects
	last := v.Last
	if x.Mutation == HandOverKeepsToken {
		last = v.Token
	}
	token := x.token(last)
	if x.Mutation == HandOverKeepsToken && v.Token > 0 {
		token = v.Token
	}
	o, left := x.next(v)
	if o == nobody {
		v.free()
		return eff
	}
	x.grant(v, o, token, left)
	eff.Granted, eff.Signal = o, true
	return eff
}

// Renew is renew.lua, for one key.
func (x Scripts) Renew(v *Server, o int, token uint8) Reply {
	mine := v.Records[o].Holds == 1 && v.Token == token
	switch x.Mutation {
	case RenewOfAnyone:
		mine = v.Token > 0
	case KeptIsRenewed:
		mine = mine || v.kept() && v.Token == token
	case RenewOfAnyToken:
		mine = v.Records[o].Holds == 1
	case RenewCreates:
		if v.Token == 0 {
			v.Records[o].Holds, v.Token = 1, token
		}
		mine = v.Records[o].Holds == 1
	}
	if !mine {
		return Reply{Code: NotHeld}
	}
	v.Left = max(v.Left, x.TTL)
	return Reply{Code: Renewed}
}

// Release is release.lua. If keep is above 0, the lock stays taken by nobody for so long.
func (x Scripts) Release(v *Server, o int, tomb bool, keep uint8) (Reply, Effects) {
	me := &v.Records[o]
	eff := noEffects
	reply := Reply{Code: Nothing}
	switch {
	case me.Holds == 1 && keep > 0 && x.Mutation != RestForgotten:
		reply.Code, eff = HadLock, x.keep(v, keep)
	case x.Mutation == KeptIsReleasedAgain && v.kept():
		reply.Code = HadLock
		v.free()
	case me.Holds == 1 && x.Mutation != CancelLeavesGrant,
		x.Mutation == ReleaseOfAnyone && v.Token > 0,
		x.Mutation == ReleasePopsAgain && me.Place == 0 && v.first() != nobody:
		reply.Code, eff = HadLock, x.handOver(v)
	case me.Place > 0 || me.Position > 0:
		reply.Code = HadPlace
		first := me.Place > 0 && me.Position == 1
		if x.Mutation != CancelLeavesPlace {
			v.leave(o)
			me.Place = 0
			v.endEmptyQueue()
			if first {
				eff.Asked = v.first()
			}
		}
	}
	if x.Mutation == StateEndsWithLease && reply.Code == HadLock {
		v.Saved = Saved{}
	}
	if tomb && x.Mutation != NoTombstone {
		me.Tombstone = forever
		if x.Tombstone > 0 {
			me.Tombstone = x.Tombstone
		}
	}
	return reply, eff
}

// keep ends the lease of the holder. The lock stays taken by nobody, and the head of the
// queue is asked to poll because the end of the lock has moved.
func (x Scripts) keep(v *Server, left uint8) Effects {
	eff := noEffects
	if x.Mutation == KeptIsHandedOver && v.first() != nobody {
		return x.handOver(v)
	}
	v.unhold()
	if x.Mutation != KeptForTheLease {
		v.Left = left
	}
	eff.Asked = v.first()
	return eff
}

// ReleaseAll is release_all.lua for one lock. It releases a lock without a queue that the
// owner holds with the token. Otherwise it does nothing and answers NotHeld.
func (x Scripts) ReleaseAll(v *Server, o int, token uint8) (Reply, Effects) {
	if v.Records[o].Holds == 0 || v.Token != token || v.first() != nobody {
		return Reply{Code: NotHeld}, noEffects
	}
	v.free()
	return Reply{Code: HadLock}, noEffects
}

// Force is force.lua.
func (x Scripts) Force(v *Server, token uint8) (Reply, Effects) {
	if v.Token == 0 || v.Token != token && x.Mutation != ForceWithoutToken {
		return Reply{Code: Nothing}, noEffects
	}
	old := v.holder()
	eff := x.handOver(v)
	eff.Forced = old
	return Reply{Code: HadLock}, eff
}
