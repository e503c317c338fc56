package main

import "time"

// row is a line of the table of goals: one figure of one of our engines, and what
// it is to be beside the others.
type row struct {
	ID      string
	Name    string
	Unit    string
	sample  spec
	key     string   // of the values of the sample
	subject string   // whose figure it is
	rivals  []string // the Go peers, of which the best counts
	goal    goal
	noise   float64 // figures that differ by less are the same
	slow    bool    // measured in one round only
	full    bool    // left out by -quick
}

// goal bounds the figure itself and its ratios; 0 is no bound. A bound of zero for
// the figure is asked for by none.
type goal struct {
	figure, std, rival, netty float64
	none                      bool
}

var wheels = []string{"antlabs", "russellluo", "rfyiamcool"}

const million = 1_000_000

// The times that a sample measures, before -quick cuts them.
const (
	opsFor    = 300 * time.Millisecond
	movesFor  = time.Second
	rearmFor  = 1500 * time.Millisecond
	idleFor   = 3 * time.Second
	spreadFor = 36 * time.Second // a turn of the second level above the buckets included
)

func opsOf(pending int) spec { return spec{Work: "ops", Pending: pending, For: opsFor} }

func fireOf(tick time.Duration) spec {
	return spec{Work: "fire", Pending: million, Tick: tick, For: time.Second}
}

func rearmOf(tick time.Duration) spec {
	return spec{Work: "rearm", Pending: 100_000, Tick: tick, For: rearmFor}
}

var (
	replaceOf = spec{Work: "replace", Pending: million, For: movesFor}
	resetOf   = spec{Work: "reset", Pending: million, For: movesFor}
	memoryOf  = spec{Work: "memory", Pending: million}
	spreadOf  = spec{Work: "spread", Pending: million, Tick: fineTick, Buckets: 512, For: spreadFor}
	hotGoal   = goal{figure: 60, std: 0.35, rival: 0.60, netty: 1}
	parGoal   = goal{std: 0.33, rival: 0.30, netty: 0.42}
	fireGoal  = goal{std: 0.30, rival: 0.45, netty: 1.6}
	beatGoal  = goal{std: 0.45, rival: 0.25, netty: 1.4}
)

// rows is the table of goals.
var rows = []row{
	{ID: "hot-0", Name: "schedule+cancel, nothing else pending", Unit: "ns", sample: opsOf(0), key: "hot.cpu", goal: hotGoal},
	{ID: "hot-100k", Name: "schedule+cancel, 100,000 pending", Unit: "ns", sample: opsOf(100_000), key: "hot.cpu", goal: hotGoal},
	{ID: "hot-1m", Name: "schedule+cancel, 1,000,000 pending", Unit: "ns", sample: opsOf(million), key: "hot.cpu", goal: hotGoal},
	{ID: "hot-10m", Name: "schedule+cancel, 10,000,000 pending", Unit: "ns", sample: opsOf(10 * million), key: "hot.cpu", goal: hotGoal, slow: true, full: true},
	{ID: "hot-1m-wall", Name: "schedule+cancel, 1,000,000 pending: wall time", Unit: "ns", sample: opsOf(million), key: "hot.wall", goal: hotGoal},
	{ID: "hot-bytes", Name: "schedule+cancel: allocated", Unit: "B", sample: opsOf(million), key: "hot.bytes", goal: goal{figure: 0, none: true}, noise: 0.5},
	{ID: "par-100k", Name: "schedule+cancel on all cores, 100,000 pending: wall time", Unit: "ns", sample: opsOf(100_000), key: "par.wall", goal: parGoal},
	{ID: "par-1m", Name: "schedule+cancel on all cores, 1,000,000 pending: wall time", Unit: "ns", sample: opsOf(million), key: "par.wall", goal: parGoal},
	{ID: "par-added", Name: "schedule+cancel: CPU on all cores ÷ CPU on one", Unit: "×", sample: opsOf(million), key: "par.added", goal: goal{figure: 1.10}},
	{ID: "replace", Name: "cancel a random one + schedule another, 1,000,000 pending", Unit: "ns", sample: replaceOf, key: "cpu", goal: goal{std: 0.60, rival: 0.62, netty: 1}},
	{ID: "reset", Name: "Reset of a random one, 1,000,000 pending", Unit: "ns", sample: resetOf, key: "cpu", goal: goal{std: 0.80, rival: 0.47, netty: 0.85}},
	{ID: "reset-bytes", Name: "Reset: allocated", Unit: "B", sample: resetOf, key: "bytes", goal: goal{none: true}, noise: 0.5},
	{ID: "fire", Name: "fire 1,000,000 in a second, Tick 1 ms", Unit: "ns", sample: fireOf(fineTick), key: "cpu", goal: fireGoal},
	{ID: "fire-p50", Name: "fire 1,000,000 in a second: lateness, median", Unit: "ms", sample: fireOf(fineTick), key: "p50"},
	{ID: "fire-p99", Name: "fire 1,000,000 in a second: lateness, 99 %", Unit: "ms", sample: fireOf(fineTick), key: "p99", goal: goal{figure: 3}},
	{ID: "fire-max", Name: "fire 1,000,000 in a second: lateness, worst", Unit: "ms", sample: fireOf(fineTick), key: "max"},
	{ID: "fire-early", Name: "fire 1,000,000 in a second: too early", Unit: "%", sample: fireOf(fineTick), key: "early", goal: goal{none: true}},
	{ID: "fire-10", Name: "fire 1,000,000 in a second, Tick 10 ms", Unit: "ns", sample: fireOf(coarseTick), key: "cpu", goal: fireGoal, slow: true, full: true},
	{ID: "fire-10-early", Name: "fire 1,000,000 in a second, Tick 10 ms: too early", Unit: "%", sample: fireOf(coarseTick), key: "early", goal: goal{none: true}, slow: true, full: true},
	{ID: "rearm", Name: "re-arm 100,000 timers once a second, Tick 1 ms", Unit: "ns", sample: rearmOf(fineTick), key: "cpu", goal: beatGoal},
	{ID: "rearm-10", Name: "re-arm 100,000 timers once a second, Tick 10 ms", Unit: "ns", sample: rearmOf(coarseTick), key: "cpu", goal: beatGoal, slow: true, full: true},
	{ID: "spread", Name: "1,000,000 pending over a minute, Tick 1 ms, 512 buckets: of a core", Unit: "%", sample: spreadOf, key: "core", goal: goal{figure: 5}, slow: true},
	{ID: "bytes", Name: "memory of a pending timer", Unit: "B", sample: memoryOf, key: "bytes", goal: goal{figure: 40, std: 0.32, rival: 0.5, netty: 0.75}, noise: 0.5},
	{ID: "gc", Name: "collection with 1,000,000 pending: CPU", Unit: "ms", sample: memoryOf, key: "gc", goal: goal{std: 0.2, rival: 0.1}},
	{ID: "idle", Name: "idle, Tick 1 ms: of a core", Unit: "%", sample: idleOf(0), key: "core", goal: idleGoal, noise: 0.01, slow: true, full: true},
	{ID: "idle-wakes", Name: "idle, Tick 1 ms: wake-ups a second", Unit: "", sample: idleOf(0), key: "wakes", goal: goal{none: true}, noise: restless, slow: true, full: true},
	{ID: "far", Name: "one far timer, Tick 1 ms: of a core", Unit: "%", sample: idleOf(1), key: "core", goal: idleGoal, noise: 0.01, slow: true},
	{ID: "far-wakes", Name: "one far timer, Tick 1 ms: wake-ups a second", Unit: "", sample: idleOf(1), key: "wakes", goal: goal{none: true}, noise: restless, slow: true},
	{ID: "heap-hot", Name: "heapqueue: schedule+cancel, nothing else pending", Unit: "ns", subject: "heap", rivals: []string{"textbook"}, sample: opsOf(0), key: "hot.cpu", goal: goal{std: 0.40, rival: 0.85}},
	{ID: "heap-near", Name: "heapqueue: schedule+cancel before 1,000,000 others", Unit: "ns", subject: "heap", rivals: []string{"textbook"}, sample: opsOf(million), key: "near.cpu", goal: goal{std: 0.48, rival: 0.47}},
	{ID: "heap-allocs", Name: "heapqueue: allocations of schedule+cancel", Unit: "", subject: "heap", rivals: []string{"textbook"}, sample: opsOf(million), key: "near.allocs", goal: goal{none: true}, noise: 0.01},
	{ID: "heap-bytes", Name: "heapqueue: memory of a pending timer", Unit: "B", subject: "heap", rivals: []string{"textbook"}, sample: memoryOf, key: "bytes", goal: goal{figure: 50}},
}

// restless is how often a second the harness itself may wake up in a process that
// does nothing else.
const restless = 4

var idleGoal = goal{figure: 0.03, std: 1, rival: 1, netty: 0.02}

func idleOf(pending int) spec {
	return spec{Work: "idle", Pending: pending, Tick: fineTick, For: idleFor}
}
