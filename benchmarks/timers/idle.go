// The samples of pending timers: their memory, and the cost of an idle engine.

package main

import (
	"runtime"
	"time"
)

// memory measures the heap that a pending timer takes without its handle, and the
// processor time of a garbage collection while s.Pending timers are pending.
func memory[H any](e engine[H], s spec) values {
	before := liveHeap()
	fill(e, s.Pending)
	v := values{"bytes": float64(liveHeap()-before) / float64(s.Pending)}
	const collections = 5
	m := startMeter()
	for range collections {
		runtime.GC()
	}
	v["gc"] = float64(m.stop().cpu) / collections / 1e6
	return v
}

// liveHeap returns the size of the reachable objects. The second collection frees
// the objects whose finalizers the first one ran.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return int64(mem.HeapAlloc)
}

// idle measures the share of a core of an engine that has run one timer.
func idle[H any](e engine[H], s spec) values {
	warmUp(e, 1, time.Millisecond)
	time.Sleep(200 * time.Millisecond)
	m := startMeter()
	time.Sleep(s.For)
	return values{"core": m.stop().share()}
}
