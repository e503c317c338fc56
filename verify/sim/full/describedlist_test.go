package full

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/leasewheel/leasewheel/internal/simrand"
	"github.com/leasewheel/leasewheel/verify/internal/mutant"
	"github.com/leasewheel/leasewheel/verify/sim"
)

// description describes a schedule of a number of processes.
type description struct {
	name      string
	processes int
	tell      func(d described)
}

var descriptions = []description{
	{"a signal of a grant that is over", 3, signalOfAGrantThatIsOver},
	{"a hand-over after a late answer", 2, handOverAfterALateAnswer},
	{"one of a batch is lost", 1, oneOfABatchIsLost},
	{"a request that comes after its release", 2, requestAfterItsRelease(false)},
	{"a request that comes after its release, and the lock is held", 2, requestAfterItsRelease(true)},
	{"a renewal that comes after its lease", 2, renewalAfterItsLease},
}

func TestDescribed(t *testing.T) {
	for _, one := range descriptions {
		t.Run(one.name, func(t *testing.T) {
			for _, v := range tell(t, one) {
				t.Error(v)
			}
		})
	}
	report.Add("described   %d", len(descriptions))
}

// test returns the name of the test of a description.
func (one description) test() string {
	return "TestDescribed/" + strings.ReplaceAll(one.name, " ", "_")
}

// sign returns the sign of the mutants that a description catches.
func (one description) sign() mutant.Sign { return mutant.Sign{Test: one.test()} }

// A waiter gets the lock by a hand-over, but no message reaches it until its place has expired
// and another process has the lock. The waiter enters the queue again, and then the signal of
// the old grant arrives.
func signalOfAGrantThatIsOver(d described) {
	const holder, waiter, next = 0, 1, 2
	ctx, key := context.Background(), sim.KeyName(0)
	d.overrides.fate = func(p *process, m message) sim.Fate {
		switch sent := d.passed(); {
		case p.ID != waiter || m.name != "acquire" || sent < describedTTL/4:
		case sent < describedTTL/2:
			return sim.Fate{Name: "lost request", LostRequest: true}
		case sent < describedTTL: // executed after the place has expired and another process has the lock
			return sim.Fate{Out: 1040*time.Millisecond - sent, Back: time.Millisecond}
		}
		return ordinary
	}
	d.overrides.signal = func() time.Duration {
		if d.passed() < describedTTL {
			return 950 * time.Millisecond
		}
		return ordinary.Out
	}
	first := d.lock(ctx, holder, key)
	d.others.Go(func() { d.unlock(d.lock(ctx, waiter, key)) })
	d.sleepUntil(150 * time.Millisecond)
	d.unlock(first)
	d.sleepUntil(1030 * time.Millisecond)
	second := d.lock(ctx, next, key)
	d.sleepUntil(1500 * time.Millisecond)
	d.unlock(second)
}

// The answer to a poll is late, and then the lock is handed over. The rest of the place counts
// from the instant at which the poll was sent.
func handOverAfterALateAnswer(d described) {
	const holder, waiter = 0, 1
	ctx, key := context.Background(), sim.KeyName(0)
	d.overrides.fate = func(p *process, m message) sim.Fate {
		if p.ID == waiter && m.name == "acquire" && d.passed() > describedTTL/4 {
			return sim.Fate{Out: time.Millisecond, Back: 300 * time.Millisecond}
		}
		return ordinary
	}
	first := d.lock(ctx, holder, key)
	d.others.Go(func() {
		held := d.lock(ctx, waiter, key)
		d.sleepUntil(2 * describedTTL)
		d.unlock(held)
	})
	d.sleepUntil(700 * time.Millisecond)
	d.unlock(first)
}

// One of three leases in a batch is lost. The other two are not.
func oneOfABatchIsLost(d described) {
	ctx, p := context.Background(), d.Procs[0]
	a, b, c := d.lock(ctx, 0, sim.KeyName(0)), d.lock(ctx, 0, sim.KeyName(1)), d.lock(ctx, 0, sim.KeyName(2))
	d.sleepUntil(2 * describedTTL)
	d.Mu.Lock()
	before := p.Stats
	d.serverFails(deleteKey, d.servers[0], b.Key, 0, simrand.New(0))
	d.observeAll()
	d.Mu.Unlock()
	<-b.Handle().Done()
	d.Mu.Lock()
	// The denial verifies the other two, perhaps already.
	after := p.Stats
	if early := after.Early - before.Early; after.Leases-before.Leases-early != 3 || after.Calls-before.Calls != 1+min(early, 1) {
		d.Violated("described", "no batch of three: %+v, %+v", before, after)
	}
	d.Mu.Unlock()
	d.sleepUntil(3 * describedTTL)
	d.unlock(a)
	d.unlock(c)
}

// A process gives up before its request reaches the server. The server executes the request
// after the release. The request must get neither the lock nor a place in the queue, because
// its process would not use them.
func requestAfterItsRelease(held bool) func(described) {
	return func(d described) {
		const holder, late = 0, 1
		ctx, key := context.Background(), sim.KeyName(0)
		d.overrides.fate = func(p *process, m message) sim.Fate {
			if p.ID == late && m.name == "acquire" {
				return sim.Fate{Out: describedTTL / 2, Back: time.Millisecond}
			}
			return ordinary
		}
		first := d.lock(ctx, holder, key)
		brief, cancel := context.WithTimeout(ctx, describedTTL/10)
		defer cancel()
		d.lock(brief, late, key)
		if held {
			d.sleepUntil(describedTTL * 3 / 4)
		}
		d.unlock(first)
		d.sleepUntil(describedTTL*3/4 + time.Millisecond)
		d.CheckLeaks()
	}
}

// The renewal of a shared lease is executed after the lease has expired. The lock still exists,
// because another process holds it too.
func renewalAfterItsLease(d described) {
	const late, other = 0, 1
	ctx := context.Background()
	d.overrides.fate = func(p *process, m message) sim.Fate {
		if p.ID == late && m.renews() {
			return sim.Fate{Out: describedTTL, Back: time.Millisecond}
		}
		return ordinary
	}
	ends := d.lock(ctx, late, sim.PermitName)
	stays := d.lock(ctx, other, sim.PermitName)
	<-ends.Handle().Done()
	d.sleepUntil(2 * describedTTL)
	d.unlock(stays)
}
