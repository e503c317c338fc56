// The rows of the tables, with their goals.

package main

import (
	"fmt"
	"time"
)

// row is a line of the table of goals: one figure of one of our engines, its goal,
// and its ratios to the peers.
type row struct {
	ID       string
	Name     string
	Unit     string
	sample   spec
	key      string   // of the values of the sample
	own      string   // the engine whose figure it is; empty means the wheel
	goPeers  []string // if own is set: the Go peers to compare with
	goal     goal
	noise    float64 // figures that differ by less count as equal
	repeat   repetition
	notQuick bool // left out with -quick
}

// goal has upper bounds of a figure and of its ratios. 0 means no bound, unless
// zero is set: then the figure must be 0.
type goal struct {
	figure, std, goPeer, netty float64
	zero                       bool

	// The figure may exceed that of another row by this much.
	aboveRow string
	above    float64
}

var wheelPeers = []string{"antlabs", "russellluo"}

var heapPeers = []string{"containerheap"}

const million = 1_000_000

// The times that a sample measures, before -quick shortens them.
const (
	opsFor    = 300 * time.Millisecond
	movesFor  = time.Second
	rearmFor  = 1500 * time.Millisecond
	idleFor   = 3 * time.Second
	spreadFor = 36 * time.Second // at 512 buckets of 1 ms the wheel empties large buckets after 16.4 and 32.8 s
)

func opsOf(pending int) spec { return spec{Work: "ops", Pending: pending, For: opsFor} }

func fireOf(tick time.Duration) spec {
	return spec{Work: "fire", Pending: million, Tick: tick, For: time.Second}
}

func rearmOf(tick time.Duration) spec {
	return spec{Work: "rearm", Pending: 100_000, Tick: tick, For: rearmFor}
}

func probeOf(pending int, over time.Duration) spec {
	return spec{Work: "probe", Pending: pending, Over: over, For: spreadFor}
}

var (
	replaceOf = spec{Work: "replace", Pending: million, For: movesFor}
	resetOf   = spec{Work: "reset", Pending: million, For: movesFor}
	memoryOf  = spec{Work: "memory", Pending: million}
	spreadOf  = spec{Work: "spread", Pending: million, Tick: fineTick, Buckets: 512, For: spreadFor}
	idleOf    = spec{Work: "idle", Tick: fineTick, For: idleFor}
	channels5 = spec{Work: "channels", Tick: coarseTick, For: opsFor}
	context5  = spec{Work: "contexts", Pending: 100_000, For: opsFor}
	half      = goal{std: 0.5}
	hotGoal   = goal{figure: 60, std: 0.35, goPeer: 0.60, netty: 1}
	parGoal   = goal{std: 0.33, goPeer: 0.30, netty: 0.42}
	fireGoal  = goal{std: 0.30, goPeer: 0.45, netty: 1.6}
	rearmGoal = goal{std: 0.45, goPeer: 0.25, netty: 1.4}
	idleGoal  = goal{figure: 0.03, std: 1, goPeer: 1, netty: 0.02}
)

// rows are the lines of the tables.
var rows = append([]row{
	{ID: "hot-0", Name: "schedule+stop, nothing else pending", Unit: "ns", sample: opsOf(0), key: "hot.cpu", goal: hotGoal},
	{ID: "hot-100k", Name: "schedule+stop, 100,000 pending", Unit: "ns", sample: opsOf(100_000), key: "hot.cpu", goal: hotGoal},
	{ID: "hot-1m", Name: "schedule+stop, 1,000,000 pending", Unit: "ns", sample: opsOf(million), key: "hot.cpu", goal: hotGoal},
	{ID: "hot-10m", Name: "schedule+stop, 10,000,000 pending", Unit: "ns", sample: opsOf(10 * million), key: "hot.cpu", goal: hotGoal, repeat: onlyOnce, notQuick: true},
	{ID: "par-100k", Name: "schedule+stop on all cores, 100,000 pending: wall time", Unit: "ns", sample: opsOf(100_000), key: "par.wall", goal: parGoal},
	{ID: "par-1m", Name: "schedule+stop on all cores, 1,000,000 pending: wall time", Unit: "ns", sample: opsOf(million), key: "par.wall", goal: parGoal},
	{ID: "replace", Name: "stop a random timer + schedule another, 1,000,000 pending", Unit: "ns", sample: replaceOf, key: "cpu", goal: goal{std: 0.60, goPeer: 0.62, netty: 1}},
	{ID: "reset", Name: "Reset of a random timer, 1,000,000 pending", Unit: "ns", sample: resetOf, key: "cpu", goal: goal{std: 0.80, goPeer: 0.47, netty: 0.85}},
	{ID: "after", Name: "a channel that is closed after 5 s, beyond one reading of the clock", Unit: "ns", sample: channels5, key: "beyond", goal: goal{figure: 30}},
	{ID: "after-allocs", Name: "such a channel, 100 calls a tick: allocations", sample: channels5, key: "calls.allocs", goal: goal{zero: true}, noise: 0.1},
	{ID: "after-channels", Name: "such a channel, 100 calls a tick: channels made in a tick", sample: channels5, key: "calls.channels", goal: goal{figure: 1}},
	{ID: "context", Name: "a context with a timeout and its cancel, 100,000 pending", Unit: "ns", sample: context5, key: "plain.cpu", goal: half},
	{ID: "context-bytes", Name: "such a context: allocated", Unit: "B", sample: context5, key: "plain.bytes", goal: half},
	{ID: "context-done", Name: "such a context with Done", Unit: "ns", sample: context5, key: "done.cpu", goal: half},
	{ID: "context-done-bytes", Name: "such a context with Done: allocated", Unit: "B", sample: context5, key: "done.bytes", goal: half},
	{ID: "context-child", Name: "such a context with a child of context.WithCancel and its Done", Unit: "ns", sample: context5, key: "child.cpu", goal: half},
	{ID: "context-child-bytes", Name: "such a context with a child: allocated", Unit: "B", sample: context5, key: "child.bytes", goal: half},
	{ID: "fire", Name: "fire 1,000,000 in a second, Tick 1 ms", Unit: "ns", sample: fireOf(fineTick), key: "cpu", goal: fireGoal},
	{ID: "fire-p50", Name: "fire 1,000,000 in a second: lateness, median", Unit: "ms", sample: fireOf(fineTick), key: "p50"},
	{ID: "fire-p99", Name: "fire 1,000,000 in a second: lateness, p99", Unit: "ms", sample: fireOf(fineTick), key: "p99", goal: goal{figure: 3}},
	{ID: "fire-max", Name: "fire 1,000,000 in a second: lateness, worst", Unit: "ms", sample: fireOf(fineTick), key: "max"},
	{ID: "fire-early", Name: "fire 1,000,000 in a second: too early", Unit: "%", sample: fireOf(fineTick), key: "early", goal: goal{zero: true}},
	{ID: "fire-10", Name: "fire 1,000,000 in a second, Tick 10 ms", Unit: "ns", sample: fireOf(coarseTick), key: "cpu", goal: fireGoal, repeat: onlyOnce, notQuick: true},
	{ID: "rearm", Name: "re-arm 100,000 timers once a second, Tick 1 ms", Unit: "ns", sample: rearmOf(fineTick), key: "cpu", goal: rearmGoal},
	{ID: "rearm-10", Name: "re-arm 100,000 timers once a second, Tick 10 ms", Unit: "ns", sample: rearmOf(coarseTick), key: "cpu", goal: rearmGoal, repeat: onlyOnce, notQuick: true},
	{ID: "spread", Name: "1,000,000 due over a minute, Tick 1 ms, 512 buckets: share of a core", Unit: "%", sample: spreadOf, key: "core", goal: goal{figure: 5}, repeat: onlyOnce},
	{ID: "bytes", Name: "memory of a pending timer", Unit: "B", sample: memoryOf, key: "bytes", goal: goal{figure: 40, std: 0.32, goPeer: 0.5, netty: 0.75}, noise: 0.5},
	{ID: "gc", Name: "garbage collection with 1,000,000 pending: CPU", Unit: "ms", sample: memoryOf, key: "gc", goal: goal{std: 0.2, goPeer: 0.1}},
	{ID: "idle", Name: "idle, Tick 1 ms: share of a core", Unit: "%", sample: idleOf, key: "core", goal: idleGoal, noise: 0.01, repeat: onlyOnce, notQuick: true},
	{ID: "heap-hot", Name: "heapqueue: schedule+stop, nothing else pending", Unit: "ns", own: "heap", goPeers: heapPeers, sample: opsOf(0), key: "hot.cpu", goal: goal{std: 0.40, goPeer: 0.85}},
	{ID: "heap-near", Name: "heapqueue: schedule+stop before 1,000,000 others", Unit: "ns", own: "heap", goPeers: heapPeers, sample: opsOf(million), key: "near.cpu", goal: goal{std: 0.48, goPeer: 0.47}},
}, probeRows()...)

// probeLoad is a number of timers that wait beside the probes.
type probeLoad struct {
	id      string
	name    string
	pending int
	over    time.Duration
}

var probeLoads = []probeLoad{
	{"0", "nothing else pending", 0, 0},
	{"1m-1", "1,000,000 due over a minute", million, time.Minute},
	{"1m-10", "1,000,000 due over ten minutes", million, 10 * time.Minute},
	{"10m-1", "10,000,000 due over a minute", 10 * million, time.Minute},
	{"10m-10", "10,000,000 due over ten minutes", 10 * million, 10 * time.Minute},
}

// probeRows returns the rows of the worst lateness of a probe, for both engines. At
// 10,000,000 it may be 5 ms above that with nothing pending.
func probeRows() []row {
	var out []row
	for _, own := range []string{"wheel", "heap"} {
		id, name, goPeers := "probe-", "timer of 5 ms beside others, worst lateness: ", wheelPeers
		if own == "heap" {
			id, name, goPeers = "heap-probe-", "heapqueue: "+name, heapPeers
		}
		for _, l := range probeLoads {
			r := row{
				ID: id + l.id, Name: name + l.name, Unit: "ms", own: own, goPeers: goPeers,
				sample: l.spec(), key: "max", repeat: peersOnce, notQuick: l.pending > million || l.over > time.Minute,
			}
			if l.pending > million {
				r.goal = goal{aboveRow: id + probeLoads[0].id, above: 5}
			}
			out = append(out, r)
		}
	}
	return out
}

func (l probeLoad) spec() spec { return probeOf(l.pending, l.over) }

// rowNamed finds a row by its id.
func rowNamed(id string) (row, error) {
	for _, r := range rows {
		if r.ID == id {
			return r, nil
		}
	}
	return row{}, fmt.Errorf("unknown row %q", id)
}
