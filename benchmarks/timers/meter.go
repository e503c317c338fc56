// The resources that an operation uses.

package main

import (
	"runtime"
	"time"

	"github.com/leasewheel/leasewheel/benchmarks/internal/bench"
)

// meter measures the wall time, the processor time and the allocations of this process. A core that the machine takes away
// lengthens the wall time and hardly changes the processor time.
type meter struct {
	wall time.Time
	cpu  time.Duration
	mem  runtime.MemStats
}

func startMeter() *meter {
	m := new(meter)
	runtime.ReadMemStats(&m.mem)
	m.cpu = processCPU()
	m.wall = time.Now()
	return m
}

// cost is what the process used between startMeter and stop.
type cost struct {
	wall, cpu     time.Duration
	bytes, allocs float64
}

func (m *meter) stop() cost {
	wall := time.Since(m.wall)
	cpu := processCPU()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	return cost{
		wall:   wall,
		cpu:    cpu - m.cpu,
		bytes:  float64(mem.TotalAlloc - m.mem.TotalAlloc),
		allocs: float64(mem.Mallocs - m.mem.Mallocs),
	}
}

// share returns the share of a core in %.
func (c cost) share() float64 { return c.cpu.Seconds() / c.wall.Seconds() * 100 }

// put stores the cost of one of n operations in v. The names begin with prefix.
func (c cost) put(n float64, v values, prefix string) {
	v[prefix+"cpu"] = float64(c.cpu) / n
	v[prefix+"wall"] = float64(c.wall) / n
	v[prefix+"bytes"] = c.bytes / n
	v[prefix+"allocs"] = c.allocs / n
}

func processCPU() time.Duration {
	cpu, err := bench.ProcessCPU()
	must(err)
	return cpu
}
