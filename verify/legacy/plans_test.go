package legacy

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/verify/internal/simreport"
)

// kinds returns the kinds of the violations of a plan, each once, in the order of their first instants.
func (r played) kinds() (all []violationKind) {
	seen := map[violationKind]bool{}
	for _, v := range r.Violations {
		if !seen[v.Kind] {
			all = append(all, v.Kind)
		}
		seen[v.Kind] = true
	}
	return all
}

// TestPlansWithoutFaults: each lock works while nothing fails.
func TestPlansWithoutFaults(t *testing.T) {
	for _, p := range protocols {
		t.Run(p.Name, func(t *testing.T) {
			r := playPlan(t, plan{Protocol: p.Name}, true)
			assert.Empty(t, r.Violations)
			assert.GreaterOrEqual(t, len(r.Writes), 30)
			for _, l := range r.Lanes {
				assert.NotEmpty(t, l.Spans, l.Name)
			}
		})
	}
}

// TestKnownSchedules plays the schedules that the playground shows, and the other failures of these locks
// that a plan can have. Each breaks these promises. With fencing it breaks none.
func TestKnownSchedules(t *testing.T) {
	paused := []fault{{pauseClient, "A", 14_000, 26_000}}
	lost := []fault{{failOver, "redis", 8_000, 0}}
	for _, c := range []struct {
		name, what string
		faults     []fault // nil: those that the playground shows
		broken     []violationKind
	}{
		{"setnx", "known", nil, []violationKind{stuckLock}},
		{"setnx", "paused", paused, []violationKind{twoHolders, wrongWrite}},
		{"setnx", "data lost", lost, []violationKind{twoHolders, wrongWrite}},
		{"setpx", "known", nil, []violationKind{twoHolders, wrongWrite}},
		{"token", "known", nil, []violationKind{twoHolders, wrongWrite}},
		{"token", "data lost", lost, []violationKind{twoHolders, wrongWrite}},
		{"redlock", "known", nil, []violationKind{twoHolders, wrongWrite}},
		{"redlock", "paused", paused, []violationKind{twoHolders, wrongWrite}},
		{"redlock", "a server loses its data", []fault{{cutOff, "redis3", 0, 900}, {failOver, "redis2", 8_000, 0}}, []violationKind{twoHolders, wrongWrite}},
		{"redlock", "a dead server", []fault{{cutOff, "redis3", 0, 90_000}}, nil},
		{"redlock", "a minority", []fault{{cutOff, "redis2", 0, 5_000}, {cutOff, "redis3", 0, 5_000}}, nil},
		{"redisson", "known", nil, []violationKind{twoHolders, wrongWrite}},
		{"ours", "known", nil, []violationKind{twoHolders, wrongWrite}},
	} {
		rules := protocolOf(c.name)
		if c.faults == nil {
			c.faults = rules.Known
		}
		t.Run(c.name+"/"+c.what, func(t *testing.T) {
			r := playPlan(t, plan{Protocol: c.name, Faults: c.faults}, true)
			assert.Equal(t, c.broken, r.kinds(), "%v", r.Violations)
			assert.Equal(t, !rules.Ours && c.broken != nil, r.breaksPromise())
			fenced := plan{Protocol: "fenced"}
			for _, f := range c.faults {
				if f.On == "redis2" || f.On == "redis3" {
					f.On = "redis"
				}
				fenced.Faults = append(fenced.Faults, f)
			}
			r = playPlan(t, fenced, true)
			assert.False(t, r.breaksPromise(), "%v", r.Violations)
		})
	}
}

// TestAPlanRepeats: a plan leads to the same picture each time. The clients of this module enter the queue, and poll, at
// random instants, so only the number of its holders and what is broken repeat.
func TestAPlanRepeats(t *testing.T) {
	for _, p := range protocols {
		first, second := playPlan(t, plan{Protocol: p.Name, Faults: p.Known}, true), playPlan(t, plan{Protocol: p.Name, Faults: p.Known}, true)
		assert.Equal(t, first.kinds(), second.kinds(), p.Name)
		for i, l := range first.Lanes {
			require.Len(t, second.Lanes[i].Spans, len(l.Spans), "%s: %s", p.Name, l.Name)
			if !p.Ours {
				assert.Equal(t, l.Spans, second.Lanes[i].Spans, "%s: %s", p.Name, l.Name)
			}
		}
	}
}

// TestRandomPlans: no random schedule breaks a promise of this module, and the same search breaks each older
// lock.
func TestRandomPlans(t *testing.T) {
	schedules := map[string]int{simreport.Quick: 60, simreport.Long: 5000, simreport.Nightly: 20_000, simreport.Release: 100_000}[simreport.Tier()]
	for _, p := range protocols {
		t.Run(p.Name, func(t *testing.T) {
			if p.Ours {
				for seed := range schedules {
					r := playPlan(t, randomPlan(p, uint64(seed)), false)
					require.True(t, r.Plan.isAllowed())
					require.False(t, r.breaksPromise(), "seed %d: %v %v", seed, r.Plan.Faults, r.Violations)
				}
				report.Add("random      %d schedules, %s", schedules, p.Title)
				return
			}
			const enough = 300
			for seed := range enough {
				if r := playPlan(t, randomPlan(p, uint64(seed)), false); r.breaksPromise() {
					report.Add("random      schedule %d breaks %s", seed+1, p.Title)
					return
				}
			}
			assert.Fail(t, "no schedule breaks it")
		})
	}
}

// TestImpossiblePlans: the playground refuses an address that names what does not exist.
func TestImpossiblePlans(t *testing.T) {
	assert.True(t, plan{"token", []fault{{pauseClient, "A", 0, 1000}}}.isAllowed())
	for _, f := range []fault{
		{"other", "A", 0, 1}, {pauseClient, "redis", 0, 1}, {failOver, "A", 0, 1}, {cutOff, "redis2", 0, 1}, {pauseClient, "A", -1, 1}, {pauseClient, "A", 90_001, 1}, {stepClock, "A", 0, -90_001},
	} {
		assert.False(t, plan{"token", []fault{f}}.isAllowed(), "%v", f)
	}
	assert.False(t, plan{"token", make([]fault, maxFaults+1)}.isAllowed())
	assert.False(t, plan{"other", nil}.isAllowed())
}
