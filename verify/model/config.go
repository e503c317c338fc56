// The configuration of a model, which bounds its state space.

package model

// Config bounds a state space. Times are in ticks and below 100.
type Config struct {
	Owners int   // number of acquisitions, 2 to MaxOwners
	TTL    uint8 // TTL of the lock
	Place  uint8 // length of a place, 1 to TTL
	Margin uint8 // safety margin of a holder

	Calls  int // maximum number of ACQUIREs of an owner in flight, 1 or 2
	Copies int // maximum number of duplicated or delayed requests

	Tries   bool  // owners may try without waiting
	Cancels bool  // waiters may give up
	Crashes bool  // owners may crash
	Renews  bool  // holders renew
	Resumes bool  // a second client may have the lease of an owner; see Guest
	MinHold uint8 // a released lock stays taken until so long after its acquisition
	Drift   bool  // the server's clock may be a tick ahead and fall back
	Saves   uint8 // maximum number of saves of a holder; requires Calls 1

	Loss     bool  // the server may lose all data, repeatedly
	Stale    bool  // the server may return once to an earlier state
	Force    uint8 // maximum number of forced releases
	StepBack uint8 // how many ticks the server's clock may be set back
	Memory   uint8 // how long the last token is remembered after its moment; 0 means forever

	Tombstone uint8 // length of a tombstone; 0 means forever
	MaxDelay  uint8 // maximum delay of a request; 0 means unbounded
	QueueEnds bool  // the expiry of the queue is counted in ticks; otherwise it may happen when all are dead

	S1Returns  bool // check S1 again one TTL after a return to a copy; requires ClockMarks
	ClockMarks bool // the mark of an answer is the clock instead of the holder's token

	Every uint64 // check liveness from one of this many states; 0 means never

	Mutation Mutation // the rule that is broken
}

// forever is a time that never ends.
const forever = 255

// exact returns whether the server's clock may be behind the tokens. Otherwise it is ahead
// of all tokens, and the last token need not be remembered.
func (c *Config) exact() bool { return c.StepBack > 0 || c.Mutation == TokenWithoutClock }

// faultTime returns how long two owners may believe that they hold the lock after the
// server lost data. It is the length of the old leases. After a return to a copy it is
// forever, because an old message may arrive at any time.
func (c *Config) faultTime(fallBack bool) uint8 {
	switch {
	case fallBack && !c.S1Returns:
		return forever
	case c.Drift:
		return c.TTL + 1
	}
	return c.TTL
}

// longest returns how long a lock may be taken without a renewal.
func (c *Config) longest() uint8 { return max(c.TTL, c.MinHold) }
