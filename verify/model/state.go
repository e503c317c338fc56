package model

// MaxOwners is the most owners that a state has room for.
const MaxOwners = 3

// Tokens are small numbers: those in one state are renumbered so that none is left
// out, which keeps their order, and 0 is none.

// State is a moment of the whole system. It has no clock: every time in it is one
// that is left, or one that has passed, and stops where it stops to matter. All
// fields are bytes, so that a state has no padding and can be hashed as it lies in
// memory.
type State struct {
	World  World
	Server Server
	Copy   Server // an earlier moment of the server, to fall back to
	Owners [MaxOwners]Owner
}

// World is what is neither the server's nor an owner's.
type World struct {
	Admin   uint8 // the token that somebody has seen who may force a release by it
	Forces  uint8 // how often the lock was taken by force
	Ahead   uint8 // 1: the server's clock is a tick ahead of the clients'
	Fault   uint8 // ticks until nobody can believe any more in what the server has lost
	Copied  uint8 // 0: no copy was made, 1: one is there, 2: it was fallen back to
	Top     uint8 // the highest token ever, where clocks are set back
	TopPast uint8 // how far the server's clock is past the moment of Top, + topNow
	Back    uint8 // how far that clock is behind the latest time that it ever had
}

// topNow is the value of World.TopPast when the clock is where Top was taken.
const topNow = 100

// Phase is where an acquisition stands.
type Phase uint8

// The phases, in their order.
const (
	Fresh   Phase = iota // nothing was sent
	Waiting              // asks, and asks again
	Held                 // was told that it holds the lock; valid while Left > 0
	Ending               // has released, and repeats that until it is answered
	Ended                // for ever: ended well, given up, or crashed
)

// Owner is one acquisition: what its client knows, and what is under way for it.
type Owner struct {
	Phase  Phase
	Try    uint8 // 1: it does not wait
	Unsure uint8 // 1: it has given up hope of an answer to some ACQUIRE
	Token  uint8 // of the lock that it holds
	Left   uint8 // ticks until the deadline
	Anchor uint8 // ticks until the deadline, if a signal came now: see rule 3
	Mark   uint8 // the highest token that an answer has named as another's

	Signal uint8 // token of a signal that may arrive, any number of times
	Forced uint8 // a signal may arrive that this token was taken by force
	Excuse uint8 // the last token that was taken from it by force

	Acquire  [2]Call
	Renew    Call
	Release  Call
	InTime   uint8 // 1: the deadline had not passed when RELEASE was sent first
	Repeated uint8 // 1: RELEASE was sent again

	Double Double

	// What the checks remember.
	Released uint8 // 1: a RELEASE of it was executed
	Buried   uint8 // 1: one with a tombstone
	Freed    uint8 // 1: that is what ended its lock
	Line     uint8 // its position among those that have been alive in the queue without a gap
	Answered uint8 // 1: an ACQUIRE was answered; only for the bug that looks at it
	Life     uint8 // 1: the second under one name; only for the bug that reuses it
}

// Call is a request and its answer.
type Call struct {
	Stage Stage
	Age   uint8 // ticks since it was sent
	Code  Code  // of the answer
	Token uint8 // ACQUIRE: of the answer. RENEW: of the request. RELEASE: 1 with tombstone
}

// Stage is how far a request has come.
type Stage uint8

// A request that is sent may be executed at any time, or never; an answer may
// arrive at any time, or never.
const (
	None Stage = iota
	Sent
	Answered
)

// Double is a request that may be executed at any time, again and again, and whose
// answers nobody gets.
type Double struct {
	Kind     Kind
	Token    uint8 // as in Call
	Original uint8 // 1: it has not been executed before: its sender gave it up
}

// Kind is a kind of request.
type Kind uint8

// The kinds of requests of owners.
const (
	NoRequest Kind = iota
	Acquire
	Renew
	Release
)

// valid tells whether an owner believes that it holds the lock.
func (o *Owner) valid() bool { return o.Left > 0 && (o.Phase == Held || o.Phase == Ending) }

// unanswered tells whether an ACQUIRE may yet be executed, for all the owner knows.
func (o *Owner) unanswered() bool {
	return o.Unsure == 1 || o.Acquire[0].Stage != None || o.Acquire[1].Stage != None
}

// quiet tells that nothing is under way for an owner.
func (o *Owner) quiet() bool {
	return o.Acquire[0].Stage == None && o.Acquire[1].Stage == None && o.Renew.Stage == None &&
		o.Release.Stage == None && o.Double.Kind == NoRequest
}
