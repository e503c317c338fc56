package whole

// regression is something that the simulation found in this module, and seeds that
// show it if it comes back.
type regression struct {
	found string
	seeds []uint64
}

var regressions = []regression{
	{"a poll without an answer took the time of a place", []uint64{1}},
}
