// Broken rules of the protocol, each of which a search must find.

package model

// Mutation is a broken rule of the protocol.
type Mutation uint8

// The mutations; Mutations describes them.
const (
	NoMutation Mutation = iota

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
	GrantPastThePlace
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
	RestForgotten
	KeptForTheLease
	KeptIsHandedOver
	KeptIsFree
	KeptIsRenewed
	KeptIsReleasedAgain

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

	ResumeCreates
	ResumeFromReply
	ResumeUnconfirmed
	ExportForgetsUnanswered

	SaveOfAnyone
	SaveOfAnyToken
	SaveInTwoSteps
	SaveUnnumbered
	NumberOfAnyLease
	RepeatIsNumbered
	RepeatIsDenied
	StateEndsWithLease
	SignalTellsNothing

	NoAdvance

	mutations // one more than the last mutation
)

// SeededMutation is a mutation and the space in which it is found.
type SeededMutation struct {
	Mutation   Mutation
	Rule       string // the rule
	As         string // how it is broken
	Space      Config
	Breaks     string // the broken promise; empty if there is none
	Successors int    // length of the shortest trace
}

var (
	two      = Config{Owners: 2, TTL: 2, Place: 1, Calls: 1, Copies: 1, Cancels: true, Crashes: true, Renews: true, Every: 1}
	bare     = Config{Owners: 2, TTL: 2, Place: 1, Calls: 1, Cancels: true, Crashes: true, Every: 1}
	keeping  = with(two, minHold)
	resuming = Config{Owners: 2, TTL: 2, Place: 1, Calls: 1, Resumes: true, Renews: true, Crashes: true, Every: 1}
	saving   = Config{Owners: 2, TTL: 2, Place: 1, Calls: 1, Saves: 2, Cancels: true, Crashes: true, Every: 1}
	three    = Config{Owners: 3, TTL: 2, Place: 1, Calls: 1, Crashes: true, Every: 1}
)

func with(c Config, changes ...func(*Config)) Config {
	for _, change := range changes {
		change(&c)
	}
	return c
}

// Mutations are all mutations. A rule has one for each plausible way to get it wrong.
var Mutations = []SeededMutation{
	{NoTombstone, "a released owner is refused afterwards", "no tombstone is written", two, "L4", 4},
	{
		TombstoneTooShort, "a tombstone outlives every request in flight", "the tombstone is one tick too short",
		with(bare, func(c *Config) { c.MaxDelay, c.Tombstone = 3, 2 }), "L4", 6,
	},
	{PollsNeedNoTombstone, "a tombstone is needed if any ACQUIRE is unanswered", "only the first ACQUIRE counts", two, "L4", 7},
	{AgainShortens, "an ACQUIRE of the holder grants the whole TTL", "it grants the length of a place", two, "S2", 5},
	{AgainNewToken, "an ACQUIRE of the holder answers the same token", "it takes a new token", two, "S3", 3},
	{NewcomerBarges, "a free lock goes to the head of the queue", "the lock goes to the caller", with(three, func(c *Config) { c.Place = 2 }), "FIFO", 8},
	{LastInFirstOut, "newcomers are appended to the queue", "they are put at the head", three, "FIFO", 9},
	{PollLosesTurn, "a poll keeps the position in the queue", "it moves to the tail", three, "FIFO", 11},
	{PollKeepsEnd, "a poll renews the place", "the place keeps its expiry", with(two, func(c *Config) { c.Place = 2 }), "S2", 12},
	{QueueWithoutEnd, "the keys of the queue expire", "they never expire", with(bare, func(c *Config) { c.QueueEnds = true }), "L2", 4},
	{DeadAreServed, "an owner whose place has expired is skipped", "it is granted the lock", three, "L3", 7},
	{GrantOfWholeTTL, "a hand-over grants the rest of the place", "it grants the whole TTL", with(three, func(c *Config) { c.Place = 2 }), "L3", 8},
	{
		GrantPastThePlace, "a hand-over grants at most the length of a place", "it grants the rest although the clock was set back",
		with(bare, steppedBack), "L2", 7,
	},
	{GrantKeepsPlace, "an owner that is granted the lock leaves the queue", "its place stays", two, "QUEUE", 6},
	{GrantWithoutEnd, "one command writes the lock and its expiry", "the expiry is missing", two, "L2", 2},
	{HandOverKeepsToken, "each grant has a higher token", "a hand-over keeps the token", two, "S3", 6},
	{
		TokenWithoutClock, "a token is not below the clock", "it is the last token plus one, and data is lost",
		with(bare, func(c *Config) { c.Loss = true }), "S3", 5,
	},
	{TokenFromClockAlone, "a token is above the last one", "it is the clock, and the clock is set back", with(bare, steppedBack), "S3", 7},
	{
		TokenForgottenEarly, "the last token is kept relative to the moment that it names", "it is kept from now, while the clock is behind",
		with(bare, steppedBack), "S3", 10,
	},
	{RenewOfAnyone, "a renewal checks the owner", "it renews any lock", two, "S4", 8},
	{RenewOfAnyToken, "a renewal checks the token", "it renews any token of the owner", two, "S4", 8},
	{RenewCreates, "a renewal never creates a lock", "it creates one", two, "S5", 7},
	{ReleaseOfAnyone, "a release checks the owner", "it releases any lock", two, "S4", 5},
	{ReleasePopsAgain, "a repeated release does nothing", "it hands over again", with(three, func(c *Config) { c.Copies = 1 }), "S4", 10},
	{CancelLeavesPlace, "a release also removes the place", "the place stays", two, "L4", 6},
	{CancelLeavesGrant, "a release also ends a grant that crossed it", "it only leaves the queue", two, "L4", 4},
	{ForceWithoutToken, "a forced release names the token", "it takes any lock", with(bare, func(c *Config) { c.Force = 2 }), "S4", 7},
	{ForceSignalsNoToken, "the message of a forced release names the token", "it ends any lease of the owner", with(bare, func(c *Config) { c.Force = 2 }), "LOSS", 8},
	{RestForgotten, "an early release keeps the lock taken", "it frees the lock", keeping, "H1", 5},
	{KeptForTheLease, "a kept lock is taken for the rest of MinHold", "it is taken for the rest of its lease", keeping, "H2", 5},
	{KeptIsHandedOver, "a kept lock is not handed over", "it goes to the head of the queue", keeping, "H1", 7},
	{KeptIsFree, "an ACQUIRE finds a kept lock taken", "it is granted the lock", keeping, "S4", 6},
	{KeptIsRenewed, "a late renewal does not find its lease in a kept lock", "it extends the lock", keeping, "S4", 7},
	{KeptIsReleasedAgain, "a repeated release leaves a kept lock as it is", "it frees the lock", keeping, "S4", 6},
	{NoMargin, "a deadline leaves a margin for clock drift", "it leaves none", with(bare, func(c *Config) { c.Drift, c.Margin, c.TTL, c.Place = true, 1, 3, 2 }), "S2", 6},
	{DeadlineFromReply, "a deadline counts from the request", "it counts from the answer", two, "S2", 5},
	{DeadlineFromSignal, "the deadline of a hand-over counts from a request", "it counts from the message", two, "S2", 8},
	{RenewalFromReply, "the deadline of a renewal counts from the request", "it counts from the answer", two, "S2", 8},
	{AnchorUnanswered, "only answered polls are anchors", "any poll is", two, "S2", 9},
	{PlaceCountsAsTTL, "a hand-over lasts as long as the place", "it lasts as long as the TTL", with(two, func(c *Config) { c.TTL = 3 }), "S2", 8},
	{StaleSignal, "a message not above the mark is stale", "any message counts", two, "S2", 13},
	{
		MarkOfLastAnswer, "the mark is the highest token in any answer", "it is the token of the last answer",
		with(bare, func(c *Config) { c.Calls, c.Crashes, c.TTL, c.Place = 2, false, 3, 2 }), "S2", 15,
	},
	{LateAnswerRevives, "an ended lease is never valid again", "a late answer revives it", two, "S5", 8},
	{LateQueuedEndsHold, "a holder ignores answers to polls", "a late answer ends the lease", two, "LOSS", 8},
	{EndedOwnerListens, "an owner that gave up ignores answers", "it takes a late grant", two, "S2", 5},
	{OwnerReused, "an owner is used for one acquisition", "it is used for the next one too", two, "S2", 7},
	{RepeatedReleaseLost, "the answer \"nothing\" to a repeated release is no loss", "it is reported as a loss", two, "LOSS", 8},
	{ValidUntilAnswered, "Unlock ends the validity before the request", "it ends it with the answer", two, "S2", 5},
	{WaiterTrustsSignals, "a waiter polls", "it waits for messages only", two, "L3", 2},
	{ResumeCreates, "Resume never creates a lock", "it takes a free lock", resuming, "S5", 8},
	{ResumeFromReply, "the deadline of a resumed lease counts from the request", "it counts from the answer", resuming, "S2", 9},
	{ResumeUnconfirmed, "a resumed lease is held once the server has confirmed it", "it is held at once", resuming, "S2", 7},
	{ExportForgetsUnanswered, "an exported lease names the ACQUIREs without an answer", "they are forgotten", resuming, "L4", 16},
	{SaveOfAnyone, "a save checks the owner", "it replaces any state", saving, "S11", 7},
	{
		SaveOfAnyToken, "a save checks the token", "it replaces the state under any token of the owner",
		with(saving, func(c *Config) { c.Copies = 1 }), "S11", 8,
	},
	{SaveInTwoSteps, "a save looks and writes in one step", "it looks first", saving, "S11", 8},
	{SaveUnnumbered, "a late save does not replace a later one", "its number is not compared", saving, "S11", 7},
	{NumberOfAnyLease, "the numbers of saves are those of a lease", "they are compared with those of another lease", saving, "S11", 12},
	{RepeatIsNumbered, "a repeated save has the number of the first try", "it has a new number", saving, "S11", 8},
	{RepeatIsDenied, "a repeated save is confirmed", "it is answered as if the lock were not held", saving, "LOSS", 7},
	{StateEndsWithLease, "a release leaves the state", "it deletes the state", saving, "S11", 7},
	{SignalTellsNothing, "the message of a hand-over tells the state", "it counts as a grant without a state", saving, "S11", 10},
	{NoAdvance, "an ACQUIRE that finds the lock free grants it to the head", "it only appends the caller to the queue", two, "", 0},
}
