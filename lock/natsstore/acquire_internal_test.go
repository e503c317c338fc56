package natsstore

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/leasewheel/leasewheel/lock/driver"
	"github.com/leasewheel/leasewheel/renewal"
)

// A renewal is answered, and before its answer is read, another call publishes the lock again.
func TestAnAnswerThatIsReadLate(t *testing.T) {
	now := time.Now()
	state := new(leaseState)
	state.stored(0, 5, nil, now.Add(-time.Minute), time.Minute)
	left := state.rest(entry{seq: 6, record: record{TTL: time.Hour.Milliseconds()}})
	if left != time.Hour {
		t.Fatalf("the last message is not known: %v are left, want its whole TTL", left)
	}
	check := func(when string, seq uint64) {
		t.Helper()
		left := state.rest(entry{seq: seq, record: record{TTL: time.Hour.Milliseconds()}})
		if left < 59*time.Minute {
			t.Errorf("%s: %v are left, want an hour", when, left)
		}
	}
	state.stored(6, 7, nil, now, left)
	check("the answer to the renewal was not read", 7)
	state = new(leaseState)
	state.stored(0, 5, nil, now.Add(-time.Minute), time.Minute)
	state.stored(6, 7, nil, now, 0)
	state.stored(5, 6, nil, now, time.Hour)
	check("the answer was read late", 7)
}

// A save waits for a renewal, and no longer than its context lasts.
func TestASaveWaitsForARenewal(t *testing.T) {
	state := &leaseState{owner: "a:1", token: 1, saving: make(chan struct{}, 1)}
	l := driver.Lease{Request: driver.Request{Owner: "a:1"}, Token: 1, State: state}
	if err := state.awaitRenewals(t.Context()); err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	s := new(Store)
	m := s.send(ended, l)
	if err := state.awaitRenewals(ended); !errors.Is(err, context.Canceled) {
		t.Errorf("a renewal is under way: got %v", err)
	}
	got := make(chan error)
	go func() { got <- state.awaitRenewals(t.Context()) }()
	if out, err := s.outcome(ended, l, m); out != renewal.Unknown || !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, %v", out, err)
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
}

func TestOldServersAreRefused(t *testing.T) {
	for version, want := range map[string]bool{"2.11.17": true, "1.4.1": true, "2.12.0-RC.1": false, "2.15.2": false, "3.0.0": false, "dev": false} {
		if got := isTooOld(version); got != want {
			t.Errorf("version %s: %v, want %v", version, got, want)
		}
	}
}
