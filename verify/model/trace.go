// The text of a trace: one action per line, with what it changes.

package model

import (
	"fmt"
	"reflect"
	"strings"
)

var texts = map[ActionKind]string{
	Start:            "%s sends its first ACQUIRE",
	StartTry:         "%s sends the ACQUIRE of a try",
	Poll:             "%s sends another ACQUIRE",
	PollHeldBack:     "%s sends another ACQUIRE; the network delays the one before",
	TakeAcquired:     "%s gets the answer",
	TakeSignal:       "%s gets the message of a token",
	TakeForced:       "%s gets the message of a forced release of a token",
	SendRenew:        "%s sends RENEW",
	TakeRenewed:      "%s gets the answer",
	Unlock:           "%s unlocks: it sends RELEASE",
	Cancel:           "%s gives up: it sends RELEASE",
	RepeatRelease:    "%s repeats RELEASE",
	TakeReleased:     "%s gets the answer",
	Crash:            "%s crashes",
	SendSave:         "%s sends a SAVE",
	RepeatSave:       "%s repeats its first SAVE with a new number",
	TakeDenied:       "%s gets the answer to a SAVE: not held",
	DoAcquire:        "the server executes ACQUIRE of %s",
	DoAcquireDoubled: "the server executes ACQUIRE of %s, and a duplicate stays in the network",
	DoRenew:          "the server executes RENEW of %s",
	DoRenewDoubled:   "the server executes RENEW of %s, and a duplicate stays in the network",
	DoRelease:        "the server executes RELEASE of %s",
	DoReleaseDoubled: "the server executes RELEASE of %s, and a duplicate stays in the network",
	DoDouble:         "the server executes a duplicate of %s",
	DoSave:           "the server executes a SAVE of %s",
	DoSaveWrite:      "the server writes the state of %s",
	Tick:             "a tick passes",
	ServerTick:       "a tick passes on the server's clock only",
	ClientTick:       "a tick passes on the clients' clocks only",
	QueueDies:        "the queue of dead waiters expires",
	LoseData:         "the server loses all data",
	MakeCopy:         "a copy of the server is made",
	FallBack:         "the server returns to the copy",
	LookAtLock:       "an administrator reads the lock",
	DoForce:          "the server executes FORCE",
	SetBack:          "the server's clock is set back by a tick",

	Export:            "%s exports its lease",
	Resume:            "the guest of %s sends RENEW to resume the lease",
	GuestRenew:        "the guest of %s sends RENEW",
	DoGuestRenew:      "the server executes RENEW of the guest of %s",
	TakeGuestRenewed:  "the guest of %s gets the answer",
	GuestUnlock:       "the guest of %s unlocks: it sends RELEASE",
	GuestRepeat:       "the guest of %s repeats RELEASE",
	DoGuestRelease:    "the server executes RELEASE of the guest of %s",
	TakeGuestReleased: "the guest of %s gets the answer",
	GuestCrash:        "the guest of %s crashes",
}

// Explain formats the trace of a result, one action per line with the values that it changes. It
// applies no reduction, so tokens keep their numbers.
func Explain(r Result) string {
	var b strings.Builder
	m := New(r.Config)
	s := r.Begin
	for n, step := range r.Trace {
		before := s
		m.keepOld = step.NewLost
		m.apply(&s, step.ActionKind, step.Owner, step.Call)
		text := texts[step.ActionKind]
		if step.Owner != nobody {
			text = fmt.Sprintf(text, name(step.Owner))
		}
		changed := changes("", reflect.ValueOf(before), reflect.ValueOf(s))
		fmt.Fprintf(&b, "%3d  %-70s | %s\n", n+1, text, strings.Join(changed, ", "))
	}
	fmt.Fprintf(&b, "     %s\n", r.Broken)
	return b.String()
}

func name(i int) string { return string(rune('A' + i)) }

// changes lists the values in which two states differ, such as "Owners.A.Left 0→2".
func changes(path string, was, is reflect.Value) (all []string) {
	switch is.Kind() {
	case reflect.Struct:
		for i := range is.NumField() {
			all = append(all, changes(path+"."+is.Type().Field(i).Name, was.Field(i), is.Field(i))...)
		}
	case reflect.Array:
		for i := range is.Len() {
			all = append(all, changes(path+"."+name(i), was.Index(i), is.Index(i))...)
		}
	default:
		if was.Uint() != is.Uint() {
			all = append(all, fmt.Sprintf("%s %d→%d", path[1:], was.Uint(), is.Uint()))
		}
	}
	return all
}
