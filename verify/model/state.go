// The state of the whole system: server, owners, requests and messages.

package model

// MaxOwners is the maximum number of owners in a state.
const MaxOwners = 3

// Tokens are small numbers, and 0 means no token. The reduction renumbers the tokens of
// a state without gaps, in the same order.

// State is the state of the whole system. It has no clock: every time is a remaining or
// an elapsed time, and stops when it no longer matters. All fields are bytes, so a state
// has no padding and can be hashed directly.
type State struct {
	World  World
	Server Server
	Copy   Server // an earlier state of the server
	Owners [MaxOwners]Owner
	Guest  Guest
}

// World is the part of the state that belongs to neither the server nor an owner.
type World struct {
	Admin   uint8 // the token that an administrator has read
	Forces  uint8 // number of forced releases
	Ahead   uint8 // 1 if the server's clock is a tick ahead of the clients'
	Fault   uint8 // ticks until leases that the server lost have expired
	Copied  uint8 // 0: no copy, 1: a copy exists, 2: the server returned to it
	Top     uint8 // the highest token ever, if clocks are set back
	TopPast uint8 // server's clock minus the moment of Top, plus topNow
	Back    uint8 // how far the clock is behind its latest time
	Rest    uint8 // ticks for which a released lock must stay taken by nobody
	Kept    Saved // what the server must have as the state; see Model.doSave
}

// topNow is the value of World.TopPast when the clock is at the moment of Top.
const topNow = 100

// Phase is the phase of an acquisition.
type Phase uint8

// Phases in their order.
const (
	Fresh   Phase = iota // no request was sent
	Waiting              // polls
	Held                 // was granted the lock; valid while Left > 0
	Ending               // repeats RELEASE until it is answered
	Ended                // finished, given up, or crashed
)

// Owner is one acquisition: the knowledge of its client, and its requests and messages in
// the network.
type Owner struct {
	Phase  Phase
	Try    uint8 // 1 if it does not wait
	Unsure uint8 // 1 if it abandoned an ACQUIRE without an answer
	Token  uint8 // token of its lease
	Left   uint8 // ticks until the deadline
	Keep   uint8 // ticks until its lock may be free if it is released
	Anchor uint8 // ticks until the deadline if a message arrived now
	Mark   uint8 // the highest token of another owner in any answer

	Signal    uint8 // token of a message that may arrive, any number of times
	Forced    uint8 // token of a message about a forced release
	ForcedOut uint8 // the last token that a forced release took from it

	Acquire  [2]Call
	Renew    Call
	Release  Call
	InTime   uint8 // 1 if RELEASE was first sent before the deadline
	Repeated uint8 // 1 if RELEASE was repeated

	Double Double
	Saves  Saves
	Told   Saved // the state in an answer "granted"; needs Calls 1
	Heard  Saved // the state in the message Signal

	// History variables of the checks.
	Released       uint8 // 1 if a RELEASE of it was executed
	WroteTombstone uint8 // 1 if a RELEASE wrote a tombstone
	Freed          uint8 // 1 if a RELEASE ended its lease
	Order          uint8 // its position among owners that were in the queue without a gap
	Answered       uint8 // 1 if an ACQUIRE was answered; for one mutation
	Reused         uint8 // 1 if the owner is reused; for one mutation
}

// Call is a request and its answer.
type Call struct {
	Stage Stage
	Age   uint8 // ticks since it was sent
	Code  Code  // code of the answer
	Token uint8 // ACQUIRE: token of the answer. RENEW: token of the request. RELEASE: 1 with tombstone
	Keep  uint8 // RELEASE: ticks for which the lock stays taken
}

// Stage is the stage of a request.
type Stage uint8

// Stages of a request. A sent request may be executed at any time or never. An answer may
// arrive at any time or never.
const (
	None Stage = iota
	Sent
	Answered
)

// Double is a duplicate of a request. It may be executed any number of times, and its
// answers are lost.
type Double struct {
	Kind     Kind
	Token    uint8 // as in Call
	Keep     uint8 // as in Call
	Original uint8 // 1 if the request itself was not executed: its sender abandoned it
}

// Saved is the state that a holder leaves to the next one. The number of the call stands for
// its data.
type Saved struct {
	Token  uint8 // of the lease
	Number uint8 // of the request
	Call   uint8 // of Save, from 1
}

// Saves are the calls of Save of an owner. The network may execute the request of each call
// at any time and any number of times, so a repeated request needs no action of its own.
type Saves struct {
	Token  uint8 // of the lease
	Calls  uint8
	Denied uint8 // 1 if the answer "not held" may arrive
	Repeat uint8 // number of a repeated request of the first call; for one mutation
	Looked uint8 // call that found its lease held; for one mutation
}

// Kind is a kind of request.
type Kind uint8

// Kinds of requests of owners.
const (
	NoRequest Kind = iota
	Acquire
	Renew
	Release
	Save // in the comparison with the scripts only; see Saves
)

// valid returns whether the owner believes that it holds the lock.
func (o *Owner) valid() bool { return o.Left > 0 && (o.Phase == Held || o.Phase == Ending) }

// unanswered returns whether an ACQUIRE may still be executed, as far as the owner knows.
func (o *Owner) unanswered() bool {
	return o.Unsure == 1 || o.Acquire[0].Stage != None || o.Acquire[1].Stage != None
}

// quiet returns whether the network has nothing of the owner.
func (o *Owner) quiet() bool {
	return o.Acquire[0].Stage == None && o.Acquire[1].Stage == None && o.Renew.Stage == None &&
		o.Release.Stage == None && o.Double.Kind == NoRequest
}
