package core

import "github.com/leasewheel/leasewheel/verify/sim"

var regressions = []sim.Regression{
	{Found: "a wall clock that was set back undid a suspension", Seeds: []uint64{757}},
	{Found: "a lock that was handed over had no time for a second try", Seeds: []uint64{121, 521, 751}},
	{Found: "a lost lock was taken again by a late request of its owner", Seeds: []uint64{292}},
	{Found: "a hung batch cost a short lease its second try", Seeds: []uint64{1172111, 147541}},
	{Found: "a fixed lease was renewed after a jump of the clocks", Seeds: []uint64{37}},
}
