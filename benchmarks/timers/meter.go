// The resources that an operation uses.

package main

import (
	"runtime"
	"syscall"
	"time"
)

// meter measures the wall time, the processor time, the allocations and the
// voluntary context switches of this process. A core that the machine takes away
// lengthens the wall time and hardly changes the processor time.
type meter struct {
	wall   time.Time
	cpu    time.Duration
	sleeps float64
	mem    runtime.MemStats
}

func startMeter() *meter {
	m := new(meter)
	runtime.ReadMemStats(&m.mem)
	m.cpu, m.sleeps = usage()
	m.wall = time.Now()
	return m
}

// cost is what the process used between startMeter and stop.
type cost struct {
	wall, cpu     time.Duration
	bytes, allocs float64
	sleeps        float64
}

func (m *meter) stop() cost {
	wall := time.Since(m.wall)
	cpu, sleeps := usage()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return cost{
		wall:   wall,
		cpu:    cpu - m.cpu,
		bytes:  float64(mem.TotalAlloc - m.mem.TotalAlloc),
		allocs: float64(mem.Mallocs - m.mem.Mallocs),
		sleeps: sleeps - m.sleeps,
	}
}

// put stores the cost of one of n operations in v. The names begin with prefix.
func (c cost) put(n float64, v values, prefix string) {
	v[prefix+"cpu"] = float64(c.cpu) / n
	v[prefix+"wall"] = float64(c.wall) / n
	v[prefix+"bytes"] = c.bytes / n
	v[prefix+"allocs"] = c.allocs / n
}

// usage returns the processor time and the voluntary context switches of this
// process.
func usage() (cpu time.Duration, sleeps float64) {
	var u syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), float64(u.Nvcsw)
}
