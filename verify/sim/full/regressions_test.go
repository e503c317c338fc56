package full

import "github.com/leasewheel/leasewheel/verify/sim"

var regressions = []sim.Regression{
	{Found: "a poll without an answer took the time of a place", Seeds: []uint64{1}},
	{Found: "a quorum counted a server that it still asked as one that has nothing", Seeds: []uint64{504034}},
	{Found: "a renewal was sent after Close had ended its call", Seeds: []uint64{4295567539}},
	{Found: "an answer to a renewal took back what a Multi had renewed since", Seeds: []uint64{920923}},
	{Found: "a lock was shown to be held for no time in its last millisecond", Seeds: []uint64{4295768777}},
	{Found: "a quorum called a writer lost because one server refused its Downgrade and one failed", Seeds: []uint64{831, 1378}},
}
