package whole

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/leasewheel/leasewheel/verify/mutant"
)

// A told story is of so many processes.
type told struct {
	name      string
	processes int
	tell      func(s story)
}

var stories = []told{
	{"a signal of a grant that is over", 3, signalOfAGrantThatIsOver},
	{"a hand-over after a late answer", 2, handOverAfterALateAnswer},
	{"one of a batch is lost", 1, oneOfABatchIsLost},
	{"a request that comes after its release", 2, requestAfterItsRelease(false)},
	{"a request that comes after its release, and the lock is held", 2, requestAfterItsRelease(true)},
	{"a renewal that comes after its lease", 2, renewalAfterItsLease},
}

func TestStories(t *testing.T) {
	for _, one := range stories {
		t.Run(one.name, func(t *testing.T) {
			for _, v := range tell(t, one).Violations {
				t.Error(v)
			}
		})
	}
	report.Add("stories     %d", len(stories))
}

// test is the name of the test of a story.
func (one told) test() string { return "TestStories/" + strings.ReplaceAll(one.name, " ", "_") }

// sign is what shows the mutants that a story is of.
func (one told) sign() mutant.Sign { return mutant.Sign{Test: one.test()} }

// A waiter is handed the lock over, but hears nothing until its place has ended and
// another has the lock. It queues again, and then the signal of the old grant comes.
func signalOfAGrantThatIsOver(s story) {
	const holder, waiter, next = 0, 1, 2
	ctx, key := context.Background(), keyName(0)
	s.staging.fate = func(p *process, m message) fate {
		switch sent := s.passed(); {
		case p.id != waiter || m.name != "acquire" || sent < storyTTL/4:
		case sent < storyTTL/2:
			return fate{name: "lost request", lostRequest: true}
		case sent < storyTTL: // it is executed in its time, but after its place
			return fate{out: 320 * time.Millisecond, back: time.Millisecond}
		}
		return usually
	}
	s.staging.signal = func() time.Duration {
		if s.passed() < storyTTL {
			return 950 * time.Millisecond
		}
		return usually.out
	}
	first := s.lock(ctx, holder, key)
	s.others.Go(func() { s.unlock(s.lock(ctx, waiter, key)) })
	s.at(150 * time.Millisecond)
	s.unlock(first)
	s.at(1030 * time.Millisecond)
	second := s.lock(ctx, next, key)
	s.at(1500 * time.Millisecond)
	s.unlock(second)
}

// The answer to a poll is late, and then the lock is handed over: what is left of the
// place counts from when the poll was sent.
func handOverAfterALateAnswer(s story) {
	const holder, waiter = 0, 1
	ctx, key := context.Background(), keyName(0)
	s.staging.fate = func(p *process, m message) fate {
		if p.id == waiter && m.name == "acquire" && s.passed() > storyTTL/4 {
			return fate{out: time.Millisecond, back: 300 * time.Millisecond}
		}
		return usually
	}
	first := s.lock(ctx, holder, key)
	s.others.Go(func() {
		held := s.lock(ctx, waiter, key)
		s.at(2 * storyTTL)
		s.unlock(held)
	})
	s.at(700 * time.Millisecond)
	s.unlock(first)
}

// Of three leases that are renewed together one is lost, and that one alone.
func oneOfABatchIsLost(s story) {
	ctx, p := context.Background(), s.procs[0]
	a, b, c := s.lock(ctx, 0, keyName(0)), s.lock(ctx, 0, keyName(1)), s.lock(ctx, 0, keyName(2))
	s.at(2 * storyTTL)
	s.mu.Lock()
	before := p.tally
	s.interfere(s.servers[0], deleteKey, b.key, 0)
	s.compareAll()
	s.mu.Unlock()
	<-b.done
	s.mu.Lock()
	if p.tally.Calls-before.Calls != 1 || p.tally.Leases-before.Leases != 3 {
		s.violated("story", "no batch of three: %+v, %+v", before, p.tally)
	}
	s.mu.Unlock()
	s.at(3 * storyTTL)
	s.unlock(a)
	s.unlock(c)
}

// Somebody gives up before its request gets to the server. It is executed when it is
// released, and must not get the lock, nor a place in the queue of another who holds it:
// nobody would take what it gets then.
func requestAfterItsRelease(held bool) func(story) {
	return func(s story) {
		const holder, late = 0, 1
		ctx, key := context.Background(), keyName(0)
		s.staging.fate = func(p *process, m message) fate {
			if p.id == late && m.name == "acquire" {
				return fate{out: storyTTL / 2, back: time.Millisecond}
			}
			return usually
		}
		first := s.lock(ctx, holder, key)
		brief, cancel := context.WithTimeout(ctx, storyTTL/10)
		defer cancel()
		s.lock(brief, late, key)
		if held {
			s.at(storyTTL * 3 / 4)
		}
		s.unlock(first)
		s.at(storyTTL*3/4 + time.Millisecond)
		s.tidies()
	}
}

// The renewal of a shared lease is executed when that has ended. The lock is still there,
// for another holds it too.
func renewalAfterItsLease(s story) {
	const late, other = 0, 1
	ctx := context.Background()
	s.staging.fate = func(p *process, m message) fate {
		if p.id == late && m.renews() {
			return fate{out: storyTTL, back: time.Millisecond}
		}
		return usually
	}
	ends := s.lock(ctx, late, permitName)
	stays := s.lock(ctx, other, permitName)
	<-ends.done
	s.at(2 * storyTTL)
	s.unlock(stays)
}
