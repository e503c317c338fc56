package sim

// regression is something that the simulation found in this module, and seeds that
// show it if it comes back.
type regression struct {
	found string
	seeds []uint64
}

var regressions = []regression{
	{"a wall clock that was set back undid a suspension", []uint64{757}},
	{"a lock that was handed over had no time for a second try", []uint64{121, 521, 751}},
	{"a lost lock was taken again by a late request of its owner", []uint64{292}},
	{"a hung batch cost a short lease its second try", []uint64{1172111, 147541}},
	{"a fixed lease was renewed after a jump of the clocks", []uint64{37}},
}
