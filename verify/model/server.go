package model

// Server is the keys of one lock.
type Server struct {
	Seats     [MaxOwners]Seat
	Token     uint8 // of the holder, 0 = the lock is free
	Left      uint8 // ticks until the lock ends
	Last      uint8 // the last token granted, 0 = forgotten; kept only where clocks are set back
	LastLeft  uint8
	QueueLeft uint8 // ticks until the queue and the places end; see Config.QueueEnds
}

// Seat is what the server has of one owner.
type Seat struct {
	Holds uint8 // 1: the lock is its own
	Place uint8 // 0: none. 1: one that has ended. Otherwise ticks until it ends, + 1
	Turn  uint8 // position in the queue from 1, 0 = not in it
	Tomb  uint8 // ticks for which it is refused
}

// Code is an answer of the server.
type Code uint8

// The answers to ACQUIRE, to RENEW, and to RELEASE and FORCE.
const (
	Refused Code = iota
	Granted
	Queued // another has it

	Renewed
	NotHeld

	Nothing
	HadLock
	HadPlace
)

// Reply is an answer with what belongs to it.
type Reply struct {
	Code  Code
	Token uint8 // Granted: of the lock. Queued: of the other
	Left  uint8 // Queued: ticks until the lock ends
	Head  bool  // Queued: the owner is first in the queue
}

// Effects is what a script did beside answering.
type Effects struct {
	Granted int  // the owner that got the lock, or nobody
	Signal  bool // it was sent the new token
	Forced  int  // the owner that was sent token 0, or nobody
}

const nobody = -1

// Scripts executes the scripts, as the bug makes them.
type Scripts struct {
	*Config
	Clock uint8 // what TIME gives for a token
}

// Acquire is acquire.lua. A place of 0 is a try.
func (x Scripts) Acquire(v *Server, o int, place uint8) (Reply, Effects) {
	eff := Effects{Granted: nobody, Forced: nobody}
	me := &v.Seats[o]
	if me.Tomb > 0 {
		return Reply{Code: Refused}, eff
	}
	switch {
	case me.Holds == 1:
		x.again(v)
		return Reply{Code: Granted, Token: v.Token}, eff
	case v.Token == 0:
		token := x.token(v.Last)
		heir, left := nobody, uint8(0)
		if x.Bug == NewcomerBarges {
			v.leave(o)
			me.Place = 0
		} else {
			heir, left = x.next(v)
		}
		if heir == nobody || heir == o {
			x.grant(v, o, token, x.TTL)
			eff.Granted = o
			return Reply{Code: Granted, Token: token}, eff
		}
		if x.Bug == NoAdvance {
			x.undo(v, heir, left)
			break
		}
		x.grant(v, heir, token, left)
		eff.Granted, eff.Signal = heir, true
	}
	if place > 0 {
		x.enqueue(v, o, place)
	}
	reply := Reply{Code: Queued, Token: v.Token, Left: v.Left, Head: place > 0 && me.Turn == 1}
	if x.ClockMarks {
		reply.Token = max(x.Clock-1, v.Token)
	}
	return reply, eff
}

// again is an ACQUIRE of the holder.
func (x Scripts) again(v *Server) {
	switch x.Bug {
	case AgainShortens:
		v.Left = x.Place
	case AgainNewToken:
		v.Token = x.token(v.Last)
		v.Left = x.TTL
	default:
		v.Left = x.TTL
	}
}

// token is the next fencing token.
func (x Scripts) token(last uint8) uint8 {
	switch x.Bug {
	case TokenWithoutClock:
		return last + 1
	case TokenFromClockAlone:
		return x.Clock
	default:
		return max(last+1, x.Clock)
	}
}

// grant gives the lock away.
func (x Scripts) grant(v *Server, o int, token, left uint8) {
	for i := range v.Seats {
		v.Seats[i].Holds = 0
	}
	v.Seats[o].Holds = 1
	v.Token, v.Left = token, left
	if x.exact() {
		v.Last, v.LastLeft = token, forever // see Model.granted
	}
	if x.Bug == GrantWithoutEnd {
		v.Left = forever
	}
}

// next takes the first owner with a place out of the queue, with all that stood
// before it, and answers it and what is left of its place.
func (x Scripts) next(v *Server) (int, uint8) {
	for {
		o := v.first()
		if o == nobody {
			return nobody, 0
		}
		place := v.Seats[o].Place
		x.pop(v, o)
		switch {
		case x.Bug == DeadAreServed:
			return o, max(place, x.Place+1) - 1
		case place > 1 && x.Bug == GrantOfWholeTTL:
			return o, x.TTL
		case place > 1:
			return o, place - 1
		}
	}
}

func (x Scripts) pop(v *Server, o int) {
	v.leave(o)
	if x.Bug != GrantKeepsPlace {
		v.Seats[o].Place = 0
		v.emptied()
	}
}

// undo puts the owner that next took back to the head of the queue.
func (x Scripts) undo(v *Server, o int, left uint8) {
	for i := range v.Seats {
		if v.Seats[i].Turn > 0 {
			v.Seats[i].Turn++
		}
	}
	v.Seats[o].Turn, v.Seats[o].Place = 1, left+1
}

// enqueue gives an owner a place, or renews it.
func (x Scripts) enqueue(v *Server, o int, place uint8) {
	me := &v.Seats[o]
	known := me.Place > 0
	if !known || x.Bug != PollKeepsEnd {
		me.Place = place + 1
	}
	switch {
	case !known:
		v.dropEnded(2)
		if v.first() == nobody {
			v.QueueLeft = 0 // it is made anew
		}
		x.push(v, o)
	case x.Bug == PollLosesTurn && me.Turn > 0:
		v.leave(o)
		x.push(v, o)
	}
	if x.QueueEnds && v.QueueLeft < 2*place {
		v.QueueLeft = 4 * place
		if x.Bug == QueueWithoutEnd {
			v.QueueLeft = forever
		}
	}
}

func (x Scripts) push(v *Server, o int) {
	turn := uint8(1)
	for i := range v.Seats {
		switch {
		case i == o || v.Seats[i].Turn == 0:
		case x.Bug == LastInFirstOut:
			v.Seats[i].Turn++
		default:
			turn = max(turn, v.Seats[i].Turn+1)
		}
	}
	v.Seats[o].Turn = turn
}

// handOver passes the lock on, or frees it.
func (x Scripts) handOver(v *Server) Effects {
	eff := Effects{Granted: nobody, Forced: nobody}
	last := v.Last
	if x.Bug == HandOverKeepsToken {
		last = v.Token
	}
	token := x.token(last)
	if x.Bug == HandOverKeepsToken && v.Token > 0 {
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
	mine := v.Seats[o].Holds == 1 && v.Token == token
	switch x.Bug {
	case RenewOfAnyone:
		mine = v.Token > 0
	case RenewOfAnyToken:
		mine = v.Seats[o].Holds == 1
	case RenewCreates:
		if v.Token == 0 {
			v.Seats[o].Holds, v.Token = 1, token
		}
		mine = v.Seats[o].Holds == 1
	}
	if !mine {
		return Reply{Code: NotHeld}
	}
	v.Left = x.TTL
	return Reply{Code: Renewed}
}

// Release is release.lua.
func (x Scripts) Release(v *Server, o int, tomb bool) (Reply, Effects) {
	me := &v.Seats[o]
	eff := Effects{Granted: nobody, Forced: nobody}
	reply := Reply{Code: Nothing}
	switch {
	case me.Holds == 1 && x.Bug != CancelLeavesGrant,
		x.Bug == ReleaseOfAnyone && v.Token > 0,
		x.Bug == ReleasePopsAgain && me.Place == 0 && v.first() != nobody:
		reply.Code, eff = HadLock, x.handOver(v)
	case me.Place > 0 || me.Turn > 0:
		reply.Code = HadPlace
		if x.Bug != CancelLeavesPlace {
			v.leave(o)
			me.Place = 0
			v.emptied()
		}
	}
	if tomb && x.Bug != NoTombstone {
		me.Tomb = forever
		if x.Tombstone > 0 {
			me.Tomb = x.Tombstone
		}
	}
	return reply, eff
}

// Force is force.lua.
func (x Scripts) Force(v *Server, token uint8) (Reply, Effects) {
	if v.Token == 0 || v.Token != token && x.Bug != ForceWithoutToken {
		return Reply{Code: Nothing}, Effects{Granted: nobody, Forced: nobody}
	}
	old := v.holder()
	eff := x.handOver(v)
	eff.Forced = old
	return Reply{Code: HadLock}, eff
}
