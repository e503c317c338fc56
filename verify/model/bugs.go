package model

// Bug is a rule of the protocol that is broken.
type Bug uint8

// The bugs; Bugs describes them.
const (
	NoBug Bug = iota

	NoTombstone
	TombstoneTooShort
	PollsNeedNoTombstone
	AgainShortens
	AgainNewToken
	NewcomerBarges
	LastInFirstOut
	PollLosesTurn
	PollKeepsEnd
	QueueWithoutEnd
	DeadAreServed
	GrantOfWholeTTL
	GrantKeepsPlace
	GrantWithoutEnd
	HandOverKeepsToken
	TokenWithoutClock
	TokenFromClockAlone
	TokenForgottenEarly
	RenewOfAnyone
	RenewOfAnyToken
	RenewCreates
	ReleaseOfAnyone
	ReleasePopsAgain
	CancelLeavesPlace
	CancelLeavesGrant
	ForceWithoutToken
	ForceSignalsNoToken

	NoMargin
	DeadlineFromReply
	DeadlineFromSignal
	RenewalFromReply
	AnchorUnanswered
	PlaceCountsAsTTL
	StaleSignal
	MarkOfLastAnswer
	LateAnswerRevives
	LateQueuedEndsHold
	EndedOwnerListens
	OwnerReused
	RepeatedReleaseLost
	ValidUntilAnswered
	WaiterTrustsSignals

	NoAdvance

	bugs // how many there are, and 1
)

// Seeded is a bug, and the space in which it is found.
type Seeded struct {
	Bug    Bug
	Rule   string // that it breaks
	As     string // how
	Space  Config
	Breaks string // the promise that is found broken; empty if it breaks none
	Steps  int    // of the shortest way there
}

var (
	two   = Config{Owners: 2, TTL: 2, Place: 1, Calls: 1, Copies: 1, Cancels: true, Crashes: true, Renews: true, Every: 1}
	bare  = Config{Owners: 2, TTL: 2, Place: 1, Calls: 1, Cancels: true, Crashes: true, Every: 1}
	three = Config{Owners: 3, TTL: 2, Place: 1, Calls: 1, Crashes: true, Every: 1}
)

func with(c Config, change func(*Config)) Config {
	change(&c)
	return c
}

// Bugs are all of them. The trials of a rule are as many as there are ways to get
// it wrong that look right.
var Bugs = []Seeded{
	{NoTombstone, "a released owner is refused from then on", "no tombstone is written", two, "L4", 4},
	{
		TombstoneTooShort, "a tombstone outlives every request that is on its way", "it is a tick too short",
		with(bare, func(c *Config) { c.Flight, c.Tombstone = 3, 2 }), "L4", 6,
	},
	{PollsNeedNoTombstone, "a tombstone is needed if any ACQUIRE is unanswered", "only the first one counts", two, "L4", 7},
	{AgainShortens, "an ACQUIRE of the holder gives the whole TTL", "it gives what a place would have", two, "S2", 5},
	{AgainNewToken, "an ACQUIRE of the holder answers the same token", "it takes a new one", two, "S3", 3},
	{NewcomerBarges, "a free lock goes to the head of the queue", "it goes to whoever asks", with(three, func(c *Config) { c.Place = 2 }), "FIFO", 8},
	{LastInFirstOut, "newcomers go to the tail", "they go to the head", three, "FIFO", 9},
	{PollLosesTurn, "a poll keeps the turn", "it goes to the tail", three, "FIFO", 11},
	{PollKeepsEnd, "a poll renews the place", "the place ends as it would have", with(two, func(c *Config) { c.Place = 2 }), "S2", 12},
	{QueueWithoutEnd, "the queue's keys have an end", "they have none", with(bare, func(c *Config) { c.QueueEnds = true }), "L2", 4},
	{DeadAreServed, "who has lost the place is skipped", "it is served", three, "L3", 7},
	{GrantOfWholeTTL, "a hand-over gives what is left of the place", "it gives the whole TTL", with(three, func(c *Config) { c.Place = 2 }), "L3", 8},
	{GrantKeepsPlace, "who is served leaves the queue and the places", "its place stays", two, "QUEUE", 6},
	{GrantWithoutEnd, "a lock is written with its end in one command", "without", two, "L2", 2},
	{HandOverKeepsToken, "each grant has a higher token", "a hand-over keeps the token", two, "S3", 6},
	{
		TokenWithoutClock, "a token is not below the time", "it counts from the last one only, and the data is lost",
		with(bare, func(c *Config) { c.Loss = true }), "S3", 5,
	},
	{TokenFromClockAlone, "a token is above the last one", "it is the time, and the clock is set back", with(bare, steppedBack), "S3", 7},
	{
		TokenForgottenEarly, "the last token is remembered from the moment that it names", "from now on, while the clock is behind it",
		with(bare, steppedBack), "S3", 10,
	},
	{RenewOfAnyone, "a renewal is for its owner", "for anyone's lock", two, "S4", 8},
	{RenewOfAnyToken, "a renewal is for its token", "for any token of the owner", two, "S4", 8},
	{RenewCreates, "a renewal creates no lock", "it does", two, "S5", 7},
	{ReleaseOfAnyone, "a release is of its owner", "of anyone's lock", two, "S4", 5},
	{ReleasePopsAgain, "a repeated release does nothing", "it hands over again", with(three, func(c *Config) { c.Copies = 1 }), "S4", 10},
	{CancelLeavesPlace, "a release ends the place too", "the place stays", two, "L4", 6},
	{CancelLeavesGrant, "a release ends a grant that has crossed it", "it only leaves the queue", two, "L4", 4},
	{ForceWithoutToken, "a forced release names the token", "it takes whatever there is", with(bare, func(c *Config) { c.Force = 2 }), "S4", 7},
	{ForceSignalsNoToken, "the signal of a forced release names the token", "it tells whatever the owner holds", with(bare, func(c *Config) { c.Force = 2 }), "LOSS", 8},
	{NoMargin, "a deadline leaves a margin for the clocks", "none", with(bare, func(c *Config) { c.Drift, c.Margin, c.TTL, c.Place = true, 1, 3, 2 }), "S2", 6},
	{DeadlineFromReply, "a deadline counts from the sending", "from the answer", two, "S2", 5},
	{DeadlineFromSignal, "the deadline of a grant by signal counts from a sending", "from the signal", two, "S2", 8},
	{RenewalFromReply, "the deadline of a renewal counts from the sending", "from the answer", two, "S2", 8},
	{AnchorUnanswered, "only answered polls are anchors", "any poll is", two, "S2", 9},
	{PlaceCountsAsTTL, "a grant by signal lasts as long as the place", "as long as the TTL", with(two, func(c *Config) { c.TTL = 3 }), "S2", 8},
	{StaleSignal, "a signal not above the mark is stale", "any signal counts", two, "S2", 13},
	{
		MarkOfLastAnswer, "the mark is the highest in any answer", "that of the answer that came last",
		with(bare, func(c *Config) { c.Calls, c.Crashes, c.TTL, c.Place = 2, false, 3, 2 }), "S2", 15,
	},
	{LateAnswerRevives, "what is over is never valid again", "a late answer revives it", two, "S5", 8},
	{LateQueuedEndsHold, "answers to polls are dropped once the lock is held", "a late one ends the hold", two, "LOSS", 8},
	{EndedOwnerListens, "who has given up listens no more", "it takes a late grant", two, "S2", 5},
	{OwnerReused, "an owner is used for one acquisition", "for the next too", two, "S2", 7},
	{RepeatedReleaseLost, "the answer nothing to a repeated release is no loss", "it is told as one", two, "LOSS", 8},
	{ValidUntilAnswered, "Unlock ends the validity before it sends", "when it is answered", two, "S2", 5},
	{WaiterTrustsSignals, "who waits polls", "it waits for signals only", two, "L3", 2},
	{NoAdvance, "an ACQUIRE that finds the lock free hands it to the head", "it only joins the queue", two, "", 0},
}
