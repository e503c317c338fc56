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

// engines are the engines under test.
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

type noopTask struct{}

func (noopTask) Run(schedule.Timer) {}

// longDelay returns a delay that does not end during a benchmark. The other pending
// timers have such delays; shortDelay is shorter than all of them.
func longDelay(rng *rand.Rand) time.Duration {
	return time.Hour + time.Duration(rng.Int64N(int64(time.Hour)))
}

const shortDelay = time.Minute

// BenchmarkScheduleStop schedules a timer and stops it while others are pending.
func BenchmarkScheduleStop(b *testing.B) {
	for _, pending := range []int{0, 100_000, 1_000_000} {
		for _, e := range engines {
			b.Run(fmt.Sprintf("pending=%d/%s", pending, e.name), func(b *testing.B) {
				s := e.make(b)
				defer s.Close()
				rng := rand.New(rand.NewPCG(1, 2))
				for range pending {
					if _, err := s.Schedule(longDelay(rng), noopTask{}); err != nil {
						b.Fatal(err)
					}
				}
				runtime.GC()
				b.ReportAllocs()
				for b.Loop() {
					t, err := s.Schedule(shortDelay, noopTask{})
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
				timers[i] = time.AfterFunc(longDelay(rng), func() {})
			}
			runtime.GC()
			b.ReportAllocs()
			for b.Loop() {
				if !time.AfterFunc(shortDelay, func() {}).Stop() {
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

// BenchmarkReset moves a random timer of 1,000,000.
func BenchmarkReset(b *testing.B) {
	const pending = 1_000_000
	for _, e := range engines {
		b.Run(e.name, func(b *testing.B) {
			s := e.make(b)
			defer s.Close()
			rng := rand.New(rand.NewPCG(1, 2))
			timers := make([]schedule.Timer, pending)
			for i := range timers {
				timers[i], _ = s.Schedule(longDelay(rng), noopTask{})
			}
			runtime.GC()
			b.ReportAllocs()
			for b.Loop() {
				if !timers[rng.IntN(pending)].Reset(longDelay(rng)) {
					b.Fatal("not reset")
				}
			}
		})
	}
	b.Run("time.AfterFunc", func(b *testing.B) {
		rng := rand.New(rand.NewPCG(1, 2))
		timers := make([]*time.Timer, pending)
		for i := range timers {
			timers[i] = time.AfterFunc(longDelay(rng), func() {})
		}
		runtime.GC()
		b.ReportAllocs()
		for b.Loop() {
			timers[rng.IntN(pending)].Reset(longDelay(rng))
		}
		b.StopTimer()
		for _, t := range timers {
			t.Stop()
		}
	})
}

// fireTask records how late it runs.
type fireTask struct {
	due   time.Time
	worst *atomic.Int64
	wg    *sync.WaitGroup
}

func (f *fireTask) Run(schedule.Timer) { f.fired() }

func (f *fireTask) fired() {
	late := int64(time.Since(f.due))
	for {
		worst := f.worst.Load()
		if late <= worst || f.worst.CompareAndSwap(worst, late) {
			break
		}
	}
	f.wg.Done()
}

// BenchmarkFire fires 200,000 timers that are due over a second. It reports the
// processor time of each and the worst lateness.
func BenchmarkFire(b *testing.B) {
	const timers = 200_000
	run := func(b *testing.B, scheduleTask func(d time.Duration, f *fireTask)) {
		var worst atomic.Int64
		tasks := make([]fireTask, timers)
		var cpu time.Duration
		for b.Loop() {
			var wg sync.WaitGroup
			wg.Add(timers)
			rng := rand.New(rand.NewPCG(1, 2))
			for i := range tasks {
				d := time.Second + time.Duration(rng.Int64N(int64(time.Second)))
				tasks[i] = fireTask{due: time.Now().Add(d), worst: &worst, wg: &wg}
				scheduleTask(d, &tasks[i])
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
			run(b, func(d time.Duration, f *fireTask) {
				if _, err := s.Schedule(d, f); err != nil {
					b.Fatal(err)
				}
			})
		})
	}
	b.Run("time.AfterFunc", func(b *testing.B) {
		run(b, func(d time.Duration, f *fireTask) { time.AfterFunc(d, f.fired) })
	})
}
