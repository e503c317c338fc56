package scheduletest

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/schedule"
)

// modelling runs random scripts of schedule, reset, stop and waiting against a
// list of what must be pending. Every operation is checked for its answer, every
// firing for its instant.
var modelling = modelCases(10)

func modelCases(seeds uint64) []testCase {
	var cases []testCase
	for seed := range seeds {
		name := fmt.Sprintf("E7_random_operations_match_the_model/seed_%d", seed)
		cases = append(cases, testCase{name, func(t *testing.T, c Config) {
			rng := rand.New(rand.NewPCG(seed, 42))
			m := &model{t: t, c: c, e: open(t, c, Options{}), rng: rng, start: time.Now()}
			m.play(name, 1000)
		}})
	}
	return cases
}

// longest is the longest delay of a script. A bubble's clock ends in the year
// 2262, which bounds the sum of all waits.
const longest = 5 * 365 * 24 * time.Hour

type model struct {
	t       *testing.T
	c       Config
	e       Engine
	rng     *rand.Rand
	start   time.Time
	pending []*modelTimer
	dead    []schedule.Timer
}

type modelTimer struct {
	timer schedule.Timer
	due   time.Time
	fired atomic.Pointer[time.Time]
}

func (m *model) play(name string, steps int) {
	for step := range steps {
		where := fmt.Sprintf("%s, step %d, +%v", name, step, time.Since(m.start))
		switch op := m.rng.IntN(10); {
		case op < 4:
			m.schedule(where)
		case op < 6:
			m.reset(where)
		case op < 8:
			m.stop(where)
		default:
			time.Sleep(m.delay() / 4)
		}
		m.check(where)
	}
	time.Sleep(longest + m.c.Slack)
	m.check(name + ", end")
	require.Empty(m.t, m.pending, "%s: timers that never fired", name)
}

// delay is mostly short, now and then years.
func (m *model) delay() time.Duration {
	if m.rng.IntN(8) == 0 {
		return randomDelay(m.rng, longest)
	}
	return randomDelay(m.rng, time.Minute) - time.Millisecond
}

func (m *model) schedule(where string) {
	d := m.delay()
	p := &modelTimer{due: time.Now().Add(max(d, 0))}
	timer, err := m.e.Schedule(d, taskFunc(func(schedule.Timer) {
		now := time.Now()
		p.fired.Store(&now)
	}))
	require.NoError(m.t, err, where)
	p.timer = timer
	m.pending = append(m.pending, p)
}

func (m *model) reset(where string) {
	if len(m.pending) > 0 {
		p, d := m.pending[m.rng.IntN(len(m.pending))], m.delay()
		require.True(m.t, p.timer.Reset(d), where)
		p.due = time.Now().Add(max(d, 0))
	}
	if len(m.dead) > 0 {
		require.False(m.t, m.dead[m.rng.IntN(len(m.dead))].Reset(m.delay()), where)
	}
}

func (m *model) stop(where string) {
	if len(m.pending) > 0 {
		i := m.rng.IntN(len(m.pending))
		require.True(m.t, m.pending[i].timer.Stop(), where)
		m.dead = append(m.dead, m.pending[i].timer)
		m.pending = slices.Delete(m.pending, i, i+1)
	}
	if len(m.dead) > 0 {
		require.False(m.t, m.dead[m.rng.IntN(len(m.dead))].Stop(), where)
	}
}

// check waits until the engine is at rest and compares what has fired with what
// should have.
func (m *model) check(where string) {
	synctest.Wait()
	now := time.Now()
	m.pending = slices.DeleteFunc(m.pending, func(p *modelTimer) bool {
		fired := p.fired.Load()
		if fired == nil {
			require.False(m.t, now.After(p.due.Add(m.c.Slack)), "%s: due %v ago, not fired", where, now.Sub(p.due))
			return false
		}
		require.False(m.t, fired.Before(p.due), "%s: fired %v early", where, p.due.Sub(*fired))
		require.False(m.t, fired.After(p.due.Add(m.c.Slack)), "%s: fired %v late", where, fired.Sub(p.due))
		m.dead = append(m.dead, p.timer)
		return true
	})
}
