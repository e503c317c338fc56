package main

import (
	"runtime"
	"syscall"
	"time"
)

// meter measures a stretch of work: wall time, processor time of the whole
// process, what it allocated and how often one of its threads went to sleep. A
// stolen core lengthens wall time and leaves processor time nearly as it is.
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

// spent is what a stretch took.
type spent struct {
	wall, cpu     time.Duration
	bytes, allocs float64
	sleeps        float64
}

func (m *meter) stop() spent {
	wall := time.Since(m.wall)
	cpu, sleeps := usage()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return spent{
		wall:   wall,
		cpu:    cpu - m.cpu,
		bytes:  float64(mem.TotalAlloc - m.mem.TotalAlloc),
		allocs: float64(mem.Mallocs - m.mem.Mallocs),
		sleeps: sleeps - m.sleeps,
	}
}

// per writes what one of n operations took into v, under names with the prefix.
func (s spent) per(n float64, v values, prefix string) {
	v[prefix+"cpu"] = float64(s.cpu) / n
	v[prefix+"wall"] = float64(s.wall) / n
	v[prefix+"bytes"] = s.bytes / n
	v[prefix+"allocs"] = s.allocs / n
}

// usage returns the processor time of this process and how often its threads
// slept.
func usage() (cpu time.Duration, sleeps float64) {
	var u syscall.Rusage
	must(syscall.Getrusage(syscall.RUSAGE_SELF, &u))
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()), float64(u.Nvcsw)
}
