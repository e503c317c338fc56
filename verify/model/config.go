package model

// Config bounds a state space. Times are in ticks, all below 100.
type Config struct {
	Name string

	Owners int   // acquisitions, each by an owner of its own: 2 to MaxOwners
	TTL    uint8 // of the lock
	Place  uint8 // how long a place in the queue lasts, 1 to TTL
	Margin uint8 // what a holder gives away of its TTL, or place

	Calls  int // ACQUIREs of one owner that may be under way at once, 1 or 2
	Copies int // requests that the network has doubled, or holds back after their sender gave them up, at one time

	Tries   bool // an owner may be one that does not wait
	Cancels bool // a waiter may give up
	Crashes bool // an owner may vanish, and with it all that it would have done
	Renews  bool // holders renew
	Drift   bool // the server's clock gains a tick on that of the clients and loses it again

	Loss     bool  // the server may lose all data, again and again
	Stale    bool  // the server may fall back, once, to any copy of an earlier moment
	Force    uint8 // how often the lock may be taken from its holder
	StepBack uint8 // the server's clock may be set back, to so many ticks behind the latest time that it had
	Memory   uint8 // for how long after its own moment the last token is remembered; 0 = for ever

	Tombstone uint8 // how long a tombstone stands; 0 = for ever
	Flight    uint8 // how long a request may be on its way; 0 = for ever
	QueueEnds bool  // the end of the keys of the queue is counted in ticks, not left to chance

	S1Returns  bool // S1 holds again one TTL after a fall-back; only with ClockMarks it does
	ClockMarks bool // an answer "queued" names the time of the server, instead of the holder's token

	Every uint64 // of how many states one is drained; 0 = none is

	Bug Bug // the one rule that is broken
}

// forever is a time that does not pass.
const forever = 255

// exact tells that the server's clock may lie behind the tokens. Otherwise it is
// ahead of all of them, and no token need be remembered.
func (c *Config) exact() bool { return c.StepBack > 0 || c.Bug == TokenWithoutClock }

// faultTime is how long, after the server has lost data, two may believe that they
// hold: until the leases of before are over. After a fall-back it is for ever,
// because a signal of before it may come at any time after it.
func (c *Config) faultTime(fallBack bool) uint8 {
	switch {
	case fallBack && !c.S1Returns:
		return forever
	case c.Drift:
		return c.TTL + 1
	}
	return c.TTL
}
