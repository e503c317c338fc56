package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/lock"
	"github.com/leasewheel/leasewheel/lock/memstore"
)

// TestEachAcceptedGraceFitsIntoTheLease checks the formulas against those of the library: a client
// accepts the options, and the notice of a loss comes a grace and a reserve before the end.
func TestEachAcceptedGraceFitsIntoTheLease(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 3 * time.Second, 6 * time.Second, 30 * time.Second, time.Minute, time.Hour, 24 * time.Hour} {
		for _, grace := range []time.Duration{0, longestGrace(ttl) / 2, longestGrace(ttl)} {
			options, err := renewalFor(ttl, grace)
			require.NoError(t, err, "%v %v", ttl, grace)
			assert.GreaterOrEqual(t, options.Margin, grace+reserveFor(ttl))
			c, err := lock.New(memstore.New(), &lock.Options{Terms: lock.Terms{TTL: ttl}, Renewal: options})
			require.NoError(t, err, "%v %v", ttl, grace)
			require.NoError(t, c.Close(t.Context()))
		}
		_, err := renewalFor(ttl, longestGrace(ttl)+ttl/50)
		require.ErrorContains(t, err, "is too long for -ttl")
		assert.Equal(t, exitUsage, statusOf(err))
	}
}

func TestTheAdvisedTTLIsEnough(t *testing.T) {
	for _, grace := range []time.Duration{0, 50 * time.Millisecond, time.Second, 5 * time.Second, 20 * time.Second, 10 * time.Minute} {
		ttl := shortestTTL(grace)
		_, err := renewalFor(ttl, grace)
		require.NoError(t, err, "%v needs %v", grace, ttl)
		if shorter := ttl - 200*time.Millisecond; shorter >= time.Second {
			_, err = renewalFor(shorter, grace)
			require.Error(t, err, "%v is content with %v", grace, shorter)
		}
	}
}

func TestTheDefaultsFit(t *testing.T) {
	options, err := renewalFor(defaultTTL, min(normalGrace, longestGrace(defaultTTL)))
	require.NoError(t, err)
	assert.Equal(t, 6*time.Second, options.Margin, "the help says so")
	assert.Equal(t, -1, options.Failures, "renewals that fail end nothing before the deadline")
}

// TestAGuardActsByEitherClock checks what a guard does, with clocks that are given.
func TestAGuardActsByEitherClock(t *testing.T) {
	start := time.Now()
	at := start.Add
	deadline := func(d time.Duration) guardMessage { // with which the guard acts after d
		d -= guardDelay
		return guardMessage{Left: d, Wall: start.Add(d).UnixNano()}
	}
	stopping := func(d time.Duration) guardMessage {
		m := deadline(d)
		m.Stopping = true
		return m
	}
	begin := guardMessage{Group: 7, Signal: 15, Grace: time.Second}
	type look struct {
		at              time.Time
		terminate, kill bool
	}
	for name, test := range map[string]struct {
		messages  []guardMessage
		abandoned bool
		looks     []look
	}{
		"nothing before the command": {[]guardMessage{deadline(time.Second)}, false, []look{{at(time.Hour), false, false}}},
		"the deadline": {[]guardMessage{begin, deadline(5 * time.Second)}, false, []look{
			{at(4 * time.Second), false, false},
			{at(5 * time.Second), true, false},
			{at(5 * time.Second), false, false},
			{at(6 * time.Second), false, true},
			{at(7 * time.Second), false, false},
		}},
		"a renewal": {[]guardMessage{begin, deadline(time.Second), deadline(9 * time.Second)}, false, []look{
			{at(8 * time.Second), false, false}, {at(9 * time.Second), true, false},
		}},
		"a sleep": {[]guardMessage{begin, deadline(5 * time.Second)}, false, []look{
			{at(time.Hour).Round(0), false, true}, // the wall clock alone
		}},
		"the signal was sent": {[]guardMessage{begin, deadline(5 * time.Second), stopping(time.Second)}, false, []look{
			{at(900 * time.Millisecond), false, false}, {at(time.Second), false, true},
		}},
		"leasewheel was killed": {[]guardMessage{begin, deadline(5 * time.Second)}, true, []look{
			{at(0), true, false}, {at(900 * time.Millisecond), false, false}, {at(time.Second), false, true},
		}},
		"leasewheel was killed late": {[]guardMessage{begin, deadline(-500 * time.Millisecond)}, true, []look{
			{at(0), true, false}, {at(500 * time.Millisecond), false, true},
		}},
		"killed before any deadline": {[]guardMessage{begin}, true, []look{{at(0), true, false}, {at(time.Second), false, true}}},
		"leasewheel was killed while the command was stopping": {
			[]guardMessage{begin, deadline(5 * time.Second), stopping(time.Second)},
			true,
			[]look{{at(0), false, false}, {at(time.Second), false, true}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var g guardState
			for _, m := range test.messages {
				g.apply(m, start)
			}
			if test.abandoned {
				g.abandoned(start)
			}
			for _, l := range test.looks {
				terminate, kill := g.due(l.at)
				assert.Equal(t, []bool{l.terminate, l.kill}, []bool{terminate, kill}, fmt.Sprint(l.at.Sub(start)))
			}
		})
	}
}
