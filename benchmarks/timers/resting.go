package main

import (
	"runtime"
	"time"
)

// memory measures what a pending timer takes, without its handle, and what one
// collection costs while s.Pending are there.
func memory[H any](e engine[H], s spec) values {
	before := heapInUse()
	fill(e, s.Pending)
	v := values{"bytes": float64(heapInUse()-before) / float64(s.Pending)}
	const collections = 5
	m := startMeter()
	for range collections {
		runtime.GC()
	}
	v["gc"] = float64(m.stop().cpu) / collections / 1e6
	return v
}

// heapInUse is the size of what is reachable. The second collection frees what the
// first has finalized.
func heapInUse() int64 {
	runtime.GC()
	runtime.GC()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return int64(mem.HeapAlloc)
}

// idle measures an engine that has run a timer and now has s.Pending of them an
// hour away or more: its share of a core, and how often it wakes up.
func idle[H any](e engine[H], s spec) values {
	burst(e, 1, time.Millisecond)
	fill(e, s.Pending)
	time.Sleep(200 * time.Millisecond)
	m := startMeter()
	time.Sleep(s.For)
	took := m.stop()
	return values{
		"core":  took.cpu.Seconds() / took.wall.Seconds() * 100,
		"wakes": took.sleeps / took.wall.Seconds(),
	}
}
