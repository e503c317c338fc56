// What the guard decides, without a clock or a process.

package main

import "time"

// guardName is the command that a guard runs. Users do not call it.
const guardName = "guard"

// guardDelay is how much later than leasewheel the guard acts, so that normally it need not. The
// reserve of the lease covers it.
const guardDelay = 50 * time.Millisecond

// guardMessage is what leasewheel sends its guard, as a line of JSON. Times are given twice, as
// an instant of the wall clock and as the time until then, because either clock may be wrong:
// the wall clock after a step, the other after a sleep of the machine.
type guardMessage struct {
	Group  int           `json:",omitempty"` // the process group of the command; in the first message
	Parent int           `json:",omitempty"` // the process of leasewheel
	Others []int         `json:",omitempty"` // children of leasewheel that are older than the command
	Signal int           `json:",omitempty"`
	Grace  time.Duration `json:",omitempty"`

	Wall     int64         `json:",omitempty"` // the deadline of the lease, or of the command if Stopping
	Left     time.Duration `json:",omitempty"` // until that deadline
	Stopping bool          `json:",omitempty"` // the command has got its signal
	Done     bool          `json:",omitempty"` // the command has ended
}

// instant is a deadline on both clocks. The zero instant never comes.
type instant struct {
	at   time.Time // with a monotonic reading
	wall int64
}

// instantOf returns the deadline in a message.
func instantOf(m guardMessage, now time.Time) instant {
	return instant{now.Add(m.Left), m.Wall}
}

// plus returns the instant d later.
func (i instant) plus(d time.Duration) instant {
	if i == (instant{}) {
		return i
	}
	return instant{i.at.Add(d), i.wall + int64(d)}
}

// reached reports whether the instant has come by either clock.
func (i instant) reached(now time.Time) bool {
	return i != (instant{}) && (!now.Before(i.at) || now.UnixNano() >= i.wall)
}

// guardState decides what a guard does. It has no clock and sends no signals.
type guardState struct {
	group    int
	parent   int
	others   []int
	signal   int
	grace    time.Duration
	end      instant // the signal is due, unless leasewheel has sent it
	kill     instant
	stopping bool
	killed   bool
}

// apply takes in a message.
func (g *guardState) apply(m guardMessage, now time.Time) {
	switch {
	case m.Group != 0:
		g.group, g.parent, g.others, g.signal, g.grace = m.Group, m.Parent, m.Others, m.Signal, m.Grace
	case m.Stopping:
		g.stopping, g.kill = true, instantOf(m, now).plus(guardDelay)
	case !g.stopping:
		g.end = instantOf(m, now).plus(guardDelay)
		g.kill = g.end.plus(g.grace)
	}
}

// abandoned is called when leasewheel has ended without a message. The command gets its grace,
// but not longer than the lease permits.
func (g *guardState) abandoned(now time.Time) {
	if !g.stopping {
		g.end = instant{now, now.UnixNano()}
	}
	if latest := g.end.plus(g.grace); g.kill == (instant{}) || latest.at.Before(g.kill.at) {
		g.kill = latest
	}
}

// wait returns how long nothing is due, at most the given time.
func (g *guardState) wait(now time.Time, most time.Duration) time.Duration {
	next := g.kill
	if !g.stopping {
		next = g.end
	}
	if g.group == 0 || g.killed || next == (instant{}) {
		return most
	}
	return min(max(next.at.Sub(now), 0), most)
}

// due returns whether the command must get its signal now, and whether it must be killed. Each
// is reported once.
func (g *guardState) due(now time.Time) (terminate, kill bool) {
	if g.group == 0 || g.killed {
		return false, false
	}
	if g.kill.reached(now) {
		g.killed, g.stopping = true, true
		return false, true
	}
	if !g.stopping && g.end.reached(now) {
		g.stopping = true
		return true, false
	}
	return false, false
}
