package whole

// regression is something that the simulation found in this module, and seeds that
// show it if it comes back.
type regression struct {
	found string
	seeds []uint64
}

var regressions = []regression{
	{"a poll without an answer took the time of a place", []uint64{1}},
	{"a quorum counted a server that it still asked as one that has nothing", []uint64{504034}},
	{"a renewal was sent after Close had ended its call", []uint64{4295567539}},
	{"a Multi passed a lock on that it knew was lost", []uint64{4295667846}},
	{"an answer to a renewal took back what a Multi had renewed since", []uint64{920923}},
	{"a lock was shown to be held for no time in its last millisecond", []uint64{4295768777}},
}
