// The configurations that are searched, with their numbers of states.

package model

// Space is a configuration and its number of states.
type Space struct {
	Config
	Name   string
	States uint64
	Long   bool // only in the long tier
}

func space(name string, c Config, states uint64, changes ...func(*Config)) Space {
	return Space{Config: with(c, changes...), Name: name, States: states}
}

func long(s Space) Space {
	s.Long = true
	return s
}

// Changes that several spaces share.
func placeOfTTL(c *Config)   { c.Place = c.TTL }
func drift(c *Config)        { c.Drift, c.Margin, c.TTL, c.Place = true, 1, 3, 2 }
func oneCopy(c *Config)      { c.Copies = 1 }
func twoCalls(c *Config)     { c.Calls = 2 }
func tries(c *Config)        { c.Tries = true }
func renews(c *Config)       { c.Renews = true }
func cancels(c *Config)      { c.Cancels = true }
func noCancels(c *Config)    { c.Cancels = false }
func noCrashes(c *Config)    { c.Crashes = false }
func forcedOnce(c *Config)   { c.Force = 1 }
func forcedThrice(c *Config) { c.Force = 3 }
func loss(c *Config)         { c.Loss = true }
func stale(c *Config)        { c.Stale = true }
func clockMarks(c *Config)   { c.ClockMarks, c.S1Returns = true, true }
func steppedBack(c *Config)  { c.StepBack, c.Memory = 2, 3 }
func steppedOnce(c *Config)  { c.StepBack, c.Memory = 1, 2 }
func queueEnds(c *Config)    { c.QueueEnds = true }
func flights(c *Config)      { c.MaxDelay, c.Tombstone = 3, 3 }
func minHold(c *Config)      { c.MinHold = 3 }
func saveOnce(c *Config)     { c.Saves, c.TTL = 1, 1 }
func someDrains(c *Config)   { c.Every = 16 }

// Spaces are the configurations that are searched.
var Spaces = []Space{
	space("doubles, renewals", two, 304137),
	space("doubles, renewals, tries", two, 620876, tries),
	space("a place that lasts as long as the lock", bare, 176161, placeOfTTL, renews),
	space("two requests at once", bare, 2580765, twoCalls, noCancels, noCrashes, someDrains),
	space("clocks that drift", bare, 737424, drift, renews),
	space("a forced release", bare, 146333, forcedOnce, noCrashes),
	space("loss of the data", bare, 221048, loss, renews),
	space("fall-back to a copy", bare, 658816, stale, renews, noCrashes),
	space("fall-back to a copy, marks by the clock", bare, 415861, stale, clockMarks, noCrashes),
	space("the clock set back", bare, 300828, steppedOnce, noCrashes),
	space("the end of the queue", bare, 57100, queueEnds, renews),
	space("the end of tombstones", bare, 82672, flights),
	space("a minimum hold", bare, 134754, minHold, renews),
	space("a lease that is resumed", resuming, 1723915, someDrains),
	space("saves", saving, 206778),
	space("saves, a forced release", saving, 1094229, forcedOnce, someDrains),
	space("three owners", three, 2694271, noCrashes, someDrains),

	long(space("a place that lasts as long as the lock, doubles", two, 1595963, placeOfTTL)),
	long(space("two requests at once, crashes", bare, 2675235, twoCalls)),
	long(space("three forced releases", bare, 2214813, forcedThrice, noCrashes)),
	long(space("fall-back to a copy, crashes", bare, 838036, stale, renews)),
	long(space("the clock set back twice, crashes", bare, 994039, steppedBack)),
	long(space("a minimum hold, doubles", keeping, 1090520)),
	long(space("a minimum hold, a forced release", bare, 353556, minHold, forcedOnce)),
	long(space("a minimum hold, the clock set back", bare, 1060713, minHold, steppedOnce, noCrashes)),
	long(space("a minimum hold, three owners", three, 5982183, minHold, noCrashes, someDrains)),
	long(space("saves, doubles, renewals", saving, 4766618, oneCopy, renews, someDrains)),
	long(space("saves, three owners", three, 4252616, saveOnce, noCrashes, someDrains)),
	long(space("saves, renewals, a minimum hold", saving, 1963756, minHold, renews, someDrains)),
	long(space("three owners that crash", three, 3024510, someDrains)),
	long(space("three owners that crash and give up", three, 3979547, cancels, someDrains)),
}
