// The text of a trace: one action per line, with the state after it.

package model

import (
	"fmt"
	"strings"
)

var texts = map[ActionKind]string{
	Start:            "%s sends its first ACQUIRE",
	StartTry:         "%s sends the ACQUIRE of a try",
	Poll:             "%s sends another ACQUIRE",
	PollHeldBack:     "%s sends another ACQUIRE; the network delays the one before",
	TakeAcquired:     "%s gets the answer: ",
	TakeSignal:       "%s gets the message of token ",
	TakeForced:       "%s gets the message of a forced release of token ",
	SendRenew:        "%s sends RENEW",
	TakeRenewed:      "%s gets the answer: ",
	Unlock:           "%s unlocks: it sends RELEASE",
	Cancel:           "%s gives up: it sends RELEASE",
	RepeatRelease:    "%s repeats RELEASE",
	TakeReleased:     "%s gets the answer: ",
	Crash:            "%s crashes",
	SendSave:         "%s sends a SAVE",
	RepeatSave:       "%s repeats its first SAVE with a new number",
	TakeDenied:       "%s gets the answer to a SAVE: not held",
	DoAcquire:        "the server executes ACQUIRE of %s: ",
	DoAcquireDoubled: "the server executes ACQUIRE of %s, and a duplicate stays in the network: ",
	DoRenew:          "the server executes RENEW of %s: ",
	DoRenewDoubled:   "the server executes RENEW of %s, and a duplicate stays in the network: ",
	DoRelease:        "the server executes RELEASE of %s: ",
	DoReleaseDoubled: "the server executes RELEASE of %s, and a duplicate stays in the network: ",
	DoDouble:         "the server executes a duplicate of %s: ",
	DoSave:           "the server executes SAVE ",
	DoSaveWrite:      "the server writes the state of %s",
	Tick:             "a tick passes",
	ServerTick:       "a tick passes on the server's clock only",
	ClientTick:       "a tick passes on the clients' clocks only",
	QueueDies:        "the queue of dead waiters expires",
	LoseData:         "the server loses all data",
	MakeCopy:         "a copy of the server is made",
	FallBack:         "the server returns to the copy",
	LookAtLock:       "an administrator reads the lock",
	DoForce:          "the server executes FORCE of token ",
	SetBack:          "the server's clock is set back by a tick",

	Export:            "%s exports its lease",
	Resume:            "the guest of %s sends RENEW to resume the lease",
	GuestRenew:        "the guest of %s sends RENEW",
	DoGuestRenew:      "the server executes RENEW of the guest of %s: ",
	TakeGuestRenewed:  "the guest of %s gets the answer: ",
	GuestUnlock:       "the guest of %s unlocks: it sends RELEASE",
	GuestRepeat:       "the guest of %s repeats RELEASE",
	DoGuestRelease:    "the server executes RELEASE of the guest of %s: ",
	TakeGuestReleased: "the guest of %s gets the answer: ",
	GuestCrash:        "the guest of %s crashes",
}

var codes = map[Code]string{
	Refused: "refused", Granted: "granted, token ", Queued: "queued, mark ",
	Renewed: "renewed", NotHeld: "not held", Nothing: "nothing", HadLock: "had the lock", HadPlace: "had a place",
}

// Explain formats the trace of a result, one action per line with the state after it. It
// applies no reduction, so tokens keep their numbers.
func Explain(r Result) string {
	var b strings.Builder
	m := New(r.Config)
	s := r.Begin
	for n, step := range r.Trace {
		before := s
		m.keepOld = step.NewLost
		m.apply(&s, step.ActionKind, step.Owner, step.Call)
		fmt.Fprintf(&b, "%3d  %-70s | %s\n", n+1, m.say(step, &before, &s), m.show(&s))
	}
	fmt.Fprintf(&b, "     %s\n", r.Broken)
	return b.String()
}

func name(i int) string { return string(rune('A' + i)) }

func (m *Model) say(step Action, before, after *State) string {
	text := texts[step.ActionKind]
	if step.Owner == nobody {
		if step.ActionKind == DoForce {
			text += fmt.Sprint(before.World.Admin)
		}
		return text
	}
	if step.ActionKind == DoSave {
		return text + fmt.Sprintf("%d of %s", step.Call+1, name(step.Owner))
	}
	text = fmt.Sprintf(text, name(step.Owner))
	was, is := &before.Owners[step.Owner], &after.Owners[step.Owner]
	switch step.ActionKind {
	case DoGuestRenew:
		text += codes[after.Guest.Renew.Code]
	case TakeGuestRenewed:
		text += codes[before.Guest.Renew.Code]
	case DoGuestRelease:
		text += codes[after.Guest.Release.Code]
	case TakeGuestReleased:
		text += codes[before.Guest.Release.Code]
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
		if is.Release.Keep > 0 {
			text += fmt.Sprintf(", the lock stays taken for %d", is.Release.Keep)
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

// show formats a state: the server, then the owners.
func (m *Model) show(s *State) string {
	var b strings.Builder
	v := &s.Server
	b.WriteString("lock ")
	if h := v.holder(); h != nobody {
		fmt.Fprintf(&b, "%s/%d for %s", name(h), v.Token, ticks(v.Left))
	} else if v.kept() {
		fmt.Fprintf(&b, "kept/%d for %s", v.Token, ticks(v.Left))
	} else {
		b.WriteString("free")
	}
	for position := range uint8(MaxOwners) {
		for i := range v.Records {
			if v.Records[i].Position == position+1 {
				fmt.Fprintf(&b, " · queue %s for %d", name(i), max(v.Records[i].Place, 1)-1)
			}
		}
	}
	for i := range m.Owners {
		o := &s.Owners[i]
		switch {
		case v.Records[i].Tombstone > 0:
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
	if v.Saved.Token > 0 {
		fmt.Fprintf(&b, " · state %d of token %d", v.Saved.Call, v.Saved.Token)
	}
	if g := &s.Guest; g.valid() {
		fmt.Fprintf(&b, " · the guest of %s HOLDS %d for %d", name(int(g.Of)-1), g.Token, g.Left)
	}
	return b.String()
}

func ticks(n uint8) string {
	if n == forever {
		return "ever"
	}
	return fmt.Sprint(n)
}
