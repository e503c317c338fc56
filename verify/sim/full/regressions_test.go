package full

import "github.com/leasewheel/leasewheel/verify/sim"

var regressions = []sim.Regression{
	{Found: "a poll without an answer took the time of a place", Seeds: []uint64{1}},
	{Found: "a quorum counted a server that it still asked as one that has nothing", Seeds: []uint64{504034}},
	{Found: "an answer to a renewal took back what a Multi had renewed since", Seeds: []uint64{920923}},
	{Found: "a quorum called a writer lost because one server refused its Downgrade and one failed", Seeds: []uint64{831, 1378}},
}
