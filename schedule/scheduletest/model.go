package scheduletest

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/leasewheel/leasewheel/schedule"
)

// modelling runs random scripts of schedule, reset, stop and waiting against a
// map of what must be pending. Every operation is checked for its answer, every
// firing for its instant.
var modelling = modelCases(20)

func modelCases(seeds uint64) []testCase {
	var cases []testCase
	for seed := range seeds {
		name := fmt.Sprintf("E7_random_operations_match_the_model/seed_%d", seed)
		cases = append(cases, testCase{name, func(t *testing.T, c Config) {
			rng := rand.New(rand.NewPCG(seed, 42))
			m := &model{t: t, c: c, e: open(t, c, Options{}), rng: rng, pending: map[int]*modelTimer{}}
			m.play(name, 1500)
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
	pending map[int]*modelTimer
	dead    []schedule.Timer
	next    int
}

type modelTimer struct {
	timer schedule.Timer
	due   time.Time
	fired time.Time
}

func (m *model) play(name string, steps int) {
	m.start = time.Now()
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
			settle(m.delay() / 4)
			m.check(where)
		}
	}
	settle(longest + m.c.Slack)
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
	timer, err := m.e.Schedule(d, taskFunc(func(schedule.Timer) { p.fired = time.Now() }))
	require.NoError(m.t, err, where)
	p.timer = timer
	m.pending[m.next] = p
	m.next++
}

func (m *model) reset(where string) {
	for _, p := range m.pending { // map order: any one
		d := m.delay()
		require.True(m.t, p.timer.Reset(d), where)
		p.due = time.Now().Add(max(d, 0))
		break
	}
	if len(m.dead) > 0 {
		require.False(m.t, m.dead[m.rng.IntN(len(m.dead))].Reset(m.delay()), where)
	}
}

func (m *model) stop(where string) {
	for id, p := range m.pending {
		require.True(m.t, p.timer.Stop(), where)
		m.dead = append(m.dead, p.timer)
		delete(m.pending, id)
		break
	}
	if len(m.dead) > 0 {
		require.False(m.t, m.dead[m.rng.IntN(len(m.dead))].Stop(), where)
	}
}

// check compares what has fired with what should have, at rest.
func (m *model) check(where string) {
	now := time.Now()
	for id, p := range m.pending {
		if p.fired.IsZero() {
			require.False(m.t, now.After(p.due.Add(m.c.Slack)), "%s: timer %d was due %v ago", where, id, now.Sub(p.due))
			continue
		}
		require.False(m.t, p.fired.Before(p.due), "%s: timer %d fired %v early", where, id, p.due.Sub(p.fired))
		require.False(m.t, p.fired.After(p.due.Add(m.c.Slack)), "%s: timer %d fired %v late", where, id, p.fired.Sub(p.due))
		m.dead = append(m.dead, p.timer)
		delete(m.pending, id)
	}
}
