package benchmarks

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/leasewheel/leasewheel/heapqueue"
	"github.com/leasewheel/leasewheel/schedule"
	"github.com/leasewheel/leasewheel/wheel"
)

type engine interface {
	schedule.Scheduler
	Close() []schedule.Task
}

// engines are those under test. Ticks are those of the peers in the field.
var engines = []struct {
	name string
	make func(b *testing.B) engine
}{
	{"wheel", func(b *testing.B) engine {
		w, err := wheel.New(&wheel.Options{Tick: time.Millisecond})
		if err != nil {
			b.Fatal(err)
		}
		return w
	}},
	{"heap", func(b *testing.B) engine {
		s, err := heapqueue.NewScheduler(nil)
		if err != nil {
			b.Fatal(err)
		}
		return s
	}},
}

type nothing struct{}

func (nothing) Run(schedule.Timer) {}

// far is a delay that does not end during a benchmark: that of the others
// pending. near is shorter than all of them.
func far(rng *rand.Rand) time.Duration {
	return time.Hour + time.Duration(rng.Int64N(int64(time.Hour)))
}

const near = time.Minute

// BenchmarkScheduleStop arms a timer and stops it, with others pending.
func BenchmarkScheduleStop(b *testing.B) {
	for _, pending := range []int{0, 100_000, 1_000_000} {
		for _, e := range engines {
			b.Run(fmt.Sprintf("pending=%d/%s", pending, e.name), func(b *testing.B) {
				s := e.make(b)
				defer s.Close()
				rng := rand.New(rand.NewPCG(1, 2))
				for range pending {
					if _, err := s.Schedule(far(rng), nothing{}); err != nil {
						b.Fatal(err)
					}
				}
				runtime.GC()
				b.ReportAllocs()
				for b.Loop() {
					t, err := s.Schedule(near, nothing{})
					if err != nil || !t.Stop() {
						b.Fatal("not stopped", err)
					}
				}
			})
		}
		b.Run(fmt.Sprintf("pending=%d/time.AfterFunc", pending), func(b *testing.B) {
			rng := rand.New(rand.NewPCG(1, 2))
			timers := make([]*time.Timer, pending)
			for i := range timers {
				timers[i] = time.AfterFunc(far(rng), func() {})
			}
			runtime.GC()
			b.ReportAllocs()
			for b.Loop() {
				if !time.AfterFunc(near, func() {}).Stop() {
					b.Fatal("not stopped")
				}
			}
			b.StopTimer()
			for _, t := range timers {
				t.Stop()
			}
		})
	}
}

// BenchmarkReset moves a random timer of a million.
func BenchmarkReset(b *testing.B) {
	const pending = 1_000_000
	for _, e := range engines {
		b.Run(e.name, func(b *testing.B) {
			s := e.make(b)
			defer s.Close()
			rng := rand.New(rand.NewPCG(1, 2))
			timers := make([]schedule.Timer, pending)
			for i := range timers {
				timers[i], _ = s.Schedule(far(rng), nothing{})
			}
			runtime.GC()
			b.ReportAllocs()
			for b.Loop() {
				if !timers[rng.IntN(pending)].Reset(far(rng)) {
					b.Fatal("not reset")
				}
			}
		})
	}
	b.Run("time.AfterFunc", func(b *testing.B) {
		rng := rand.New(rand.NewPCG(1, 2))
		timers := make([]*time.Timer, pending)
		for i := range timers {
			timers[i] = time.AfterFunc(far(rng), func() {})
		}
		runtime.GC()
		b.ReportAllocs()
		for b.Loop() {
			timers[rng.IntN(pending)].Reset(far(rng))
		}
		b.StopTimer()
		for _, t := range timers {
			t.Stop()
		}
	})
}

// arrival notes that a timer fired, and how late.
type arrival struct {
	due   time.Time
	worst *atomic.Int64
	wg    *sync.WaitGroup
}

func (a *arrival) Run(schedule.Timer) { a.fired() }

func (a *arrival) fired() {
	late := int64(time.Since(a.due))
	for {
		worst := a.worst.Load()
		if late <= worst || a.worst.CompareAndSwap(worst, late) {
			break
		}
	}
	a.wg.Done()
}

// BenchmarkFire fires 200,000 timers that are due over one second and reports
// the processor time of each and the worst lateness.
func BenchmarkFire(b *testing.B) {
	const timers = 200_000
	run := func(b *testing.B, arm func(d time.Duration, a *arrival)) {
		var worst atomic.Int64
		arrivals := make([]arrival, timers)
		var cpu time.Duration
		for b.Loop() {
			var wg sync.WaitGroup
			wg.Add(timers)
			rng := rand.New(rand.NewPCG(1, 2))
			for i := range arrivals {
				d := time.Second + time.Duration(rng.Int64N(int64(time.Second)))
				arrivals[i] = arrival{due: time.Now().Add(d), worst: &worst, wg: &wg}
				arm(d, &arrivals[i])
			}
			before := processCPU()
			wg.Wait()
			cpu += processCPU() - before
		}
		b.ReportMetric(float64(cpu.Nanoseconds())/float64(b.N)/timers, "cpu-ns/fire")
		b.ReportMetric(float64(worst.Load())/1e6, "worst-ms")
		b.ReportMetric(0, "ns/op")
	}
	for _, e := range engines {
		b.Run(e.name, func(b *testing.B) {
			s := e.make(b)
			defer s.Close()
			run(b, func(d time.Duration, a *arrival) {
				if _, err := s.Schedule(d, a); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
	b.Run("time.AfterFunc", func(b *testing.B) {
		run(b, func(d time.Duration, a *arrival) { time.AfterFunc(d, a.fired) })
	})
}
