package model

import (
	"fmt"
	"strings"
)

var texts = map[What]string{
	Start:            "%s sends its first ACQUIRE",
	StartTry:         "%s sends the ACQUIRE of a try",
	Poll:             "%s sends another ACQUIRE",
	PollHeldBack:     "%s sends another ACQUIRE, while the one before is held back in the network",
	TakeAcquired:     "%s gets the answer: ",
	TakeSignal:       "%s gets the signal of token ",
	TakeForced:       "%s gets the signal of a forced release of token ",
	SendRenew:        "%s sends RENEW",
	TakeRenewed:      "%s gets the answer: ",
	Unlock:           "%s unlocks: it sends RELEASE",
	Cancel:           "%s gives up: it sends RELEASE",
	RepeatRelease:    "%s repeats RELEASE",
	TakeReleased:     "%s gets the answer: ",
	Crash:            "%s crashes",
	DoAcquire:        "the server executes ACQUIRE of %s: ",
	DoAcquireDoubled: "the server executes ACQUIRE of %s, of which a double stays in the network: ",
	DoRenew:          "the server executes RENEW of %s: ",
	DoRenewDoubled:   "the server executes RENEW of %s, of which a double stays in the network: ",
	DoRelease:        "the server executes RELEASE of %s: ",
	DoReleaseDoubled: "the server executes RELEASE of %s, of which a double stays in the network: ",
	DoDouble:         "the server executes what the network has kept of %s: ",
	Tick:             "a tick passes",
	ServerTick:       "a tick passes on the server's clock only",
	ClientTick:       "a tick passes on the clients' clocks only",
	QueueDies:        "the queue ends, all in it being dead",
	LoseData:         "the server loses all data",
	MakeCopy:         "a copy of the server is made",
	FallBack:         "the server falls back to that copy",
	LookAtLock:       "an administrator looks at the lock",
	DoForce:          "the server executes FORCE of token ",
	SetBack:          "the server's clock is set back by a tick",
}

var codes = map[Code]string{
	Refused: "refused", Granted: "granted, token ", Queued: "queued, mark ",
	Renewed: "renewed", NotHeld: "not held", Nothing: "nothing", HadLock: "had the lock", HadPlace: "had a place",
}

// Explain writes the way that a search has found, a line a step, with the state
// after each. Nothing is tidied up on the way, so that tokens keep their numbers.
func Explain(r Result) string {
	var b strings.Builder
	m := New(r.Config)
	s := r.Begin
	for n, step := range r.Trace {
		before := s
		m.keepOld = step.NewLost
		m.apply(&s, step.What, step.Owner, step.Call)
		fmt.Fprintf(&b, "%3d  %-70s | %s\n", n+1, m.say(step, &before, &s), m.show(&s))
	}
	fmt.Fprintf(&b, "     %s\n", r.Broken)
	return b.String()
}

func name(i int) string { return string(rune('A' + i)) }

func (m *Model) say(step Step, before, after *State) string {
	text := texts[step.What]
	if step.Owner == nobody {
		if step.What == DoForce {
			text += fmt.Sprint(before.World.Admin)
		}
		return text
	}
	text = fmt.Sprintf(text, name(step.Owner))
	was, is := &before.Owners[step.Owner], &after.Owners[step.Owner]
	switch step.What {
	case DoAcquire, DoAcquireDoubled:
		text += answer(is.Acquire[step.Call])
	case DoRenew, DoRenewDoubled:
		text += codes[is.Renew.Code]
	case DoRelease, DoReleaseDoubled:
		text += codes[is.Release.Code]
	case TakeAcquired:
		text += answer(was.Acquire[step.Call])
	case TakeRenewed:
		text += codes[was.Renew.Code]
	case TakeReleased:
		text += codes[was.Release.Code]
	case TakeSignal:
		text += fmt.Sprint(was.Signal)
	case TakeForced:
		text += fmt.Sprint(was.Forced)
	case Unlock, Cancel:
		if is.Release.Token == 1 {
			text += " with a tombstone"
		}
	case DoDouble:
		text += [...]string{"", "ACQUIRE", "RENEW", "RELEASE"}[was.Double.Kind]
	}
	return text
}

func answer(call Call) string {
	text := codes[call.Code]
	if call.Code == Granted || call.Code == Queued {
		text += fmt.Sprint(call.Token)
	}
	return text
}

// show writes a state: the server, then the owners.
func (m *Model) show(s *State) string {
	var b strings.Builder
	v := &s.Server
	b.WriteString("lock ")
	if h := v.holder(); h != nobody {
		fmt.Fprintf(&b, "%s/%d for %s", name(h), v.Token, ticks(v.Left))
	} else {
		b.WriteString("free")
	}
	for turn := range uint8(MaxOwners) {
		for i := range v.Seats {
			if v.Seats[i].Turn == turn+1 {
				fmt.Fprintf(&b, " · queue %s for %d", name(i), max(v.Seats[i].Place, 1)-1)
			}
		}
	}
	for i := range m.Owners {
		o := &s.Owners[i]
		switch {
		case v.Seats[i].Tomb > 0:
			fmt.Fprintf(&b, " · tombstone %s", name(i))
		case o.Signal > o.Mark && o.Phase == Waiting:
			fmt.Fprintf(&b, " · signal %s/%d", name(i), o.Signal)
		}
		switch {
		case o.Phase == Waiting:
			fmt.Fprintf(&b, " · %s waits, anchor %d, mark %d", name(i), o.Anchor, o.Mark)
		case o.Phase == Held, o.valid():
			fmt.Fprintf(&b, " · %s HOLDS %d for %d", name(i), o.Token, o.Left)
		}
	}
	return b.String()
}

func ticks(n uint8) string {
	if n == forever {
		return "ever"
	}
	return fmt.Sprint(n)
}
